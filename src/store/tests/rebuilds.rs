//! Changes that a rebuild makes in the store.

use super::super::routes;
use super::*;
use crate::ids::{RouteId, TokenId};
use crate::routing::rebuild::{Credential, NewRoute, Plan, Rebinding};

async fn apply(store: &Store, plan: Plan) -> Result<()> {
    routes::apply(store, &plan, None).await
}

#[tokio::test]
async fn a_rebuild_that_takes_much_away_lets_other_changes_in_between_and_a_small_one_holds_whole() {
    let dir = Dir::new();
    let store = dir.open();
    let site_id = sites::insert(&store, site("blue")).await.unwrap();
    let account_id = accounts::insert(&store, api_key(site_id, "blue")).await.unwrap();
    let channel = Credential { account_id, token_id: None, unit_id: None };
    let named = |number: usize| NewRoute { model: format!("model-{number}"), channels: vec![channel] };
    apply(&store, Plan { create_routes: (0..251).map(named).collect(), ..Plan::default() }).await.unwrap();
    let channels = routes::list_channels(&store).await.unwrap();
    let of_routes: Vec<RouteId> = channels.iter().map(|channel| channel.route_id).collect();
    // The last of its changes fails, because there is no such token.
    let failing = |delete_routes: &[RouteId]| Plan {
        delete_routes: delete_routes.to_vec(),
        rebind_channels: vec![Rebinding { channel_id: channels[250].id, token_id: TokenId::new(4711) }],
        ..Plan::default()
    };

    let small = apply(&store, failing(&of_routes[..50])).await;
    assert!(matches!(small, Err(Error::Dangling(_))), "{small:?}");
    assert_eq!(routes::list(&store).await.unwrap().len(), 251, "nothing of it holds");

    let large = apply(&store, failing(&of_routes[..250])).await;
    assert!(matches!(large, Err(Error::Dangling(_))), "{large:?}");
    assert_eq!(
        routes::list(&store).await.unwrap().len(),
        51,
        "two hundred are gone, fifty go with the next try"
    );
}
