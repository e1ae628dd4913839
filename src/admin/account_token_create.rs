//! `POST /api/account-tokens`: a key typed here, or one that the site makes (admin-core.md 6).

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::json;

use super::account_token_input::CreateInput;
use super::account_token_view as view;
use super::account_tokens::{refused, require_tokens};
use super::accounts::find as find_account;
use super::errors::{AdminError, Result};
use super::input::Fields;
use crate::app::App;
use crate::http::{self, Request, Response};
use crate::jobs::coverage::cover;
use crate::jobs::token_book::TokenBook;
use crate::store::accounts::AccountRow;
use crate::store::tokens::{self, TokenRow};

/// `POST /api/account-tokens`
pub async fn create(app: Arc<App>, mut request: Request) -> Result<Response> {
    let fields = Fields::from(request.json_object().await?);
    let input = CreateInput::read(&fields)?;
    let account = find_account(&app, input.account_id).await?;
    require_tokens(&account)?;
    let Some(key) = input.token.clone() else {
        return Err(AdminError::bad_request("Invalid token. Expected non-empty string."));
    };
    let row = store_typed(&app, &account, &input, &key).await?;
    app.publish().await?;
    let coverage = cover(&app, &[account.id]).await;
    let row = tokens::get(&app.store, row.id).await?.unwrap_or(row);
    let body = json!({ "success": true, "token": view::row(&row), "coverageRefresh": coverage });
    Ok(http::json(StatusCode::OK, &body))
}

/// Stores a key that an operator typed.
async fn store_typed(app: &App, account: &AccountRow, input: &CreateInput, key: &str) -> Result<TokenRow> {
    let _turn = app.token_edits.lock().await;
    let mut book = TokenBook::read(&app.store, account.id).await?;
    let name = input.name.clone().unwrap_or_else(|| book.next_name());
    let at = book.add(&name, key, input.group.clone(), input.source);
    book.rows[at].enabled &= input.enabled;
    if input.is_default && book.rows[at].is_usable() {
        book.prefer(at);
    }
    let mut rows = book.save(&app.store).await.map_err(refused)?;
    Ok(rows.swap_remove(at))
}
