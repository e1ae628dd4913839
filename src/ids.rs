//! The ids of rows, a type for each kind of row, so that an account's id cannot be taken for its site's.
//!
//! A number becomes an id where it enters the program, where its meaning is known: a row of the store, a segment of a
//! path, a member of a JSON body. Inside, only ids are used. In SQL, JSON and texts an id is its number.

use std::fmt;
use std::hash::Hash;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The operations that every id type has.
pub trait Id: Copy + Ord + Hash + fmt::Display {
    fn new(number: i64) -> Self;

    fn get(self) -> i64;
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        #[repr(transparent)]
        pub struct $name(i64);

        impl $name {
            /// The id of no row; it is smaller than the id of every row.
            pub const ZERO: Self = Self(0);

            pub const fn new(number: i64) -> Self {
                Self(number)
            }

            pub const fn get(self) -> i64 {
                self.0
            }
        }

        impl Id for $name {
            fn new(number: i64) -> Self {
                Self(number)
            }

            fn get(self) -> i64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(out)
            }
        }

        /// Formats the id as its number, as all other texts do.
        impl fmt::Debug for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(out)
            }
        }

        impl From<$name> for Value {
            fn from(id: $name) -> Self {
                id.0.into()
            }
        }
    )*};
}

ids! {
    /// The id of an upstream site.
    SiteId;
    /// The id of one address of a site's pool.
    EndpointId;
    /// The id of an account at a site.
    AccountId;
    /// The id of a managed token of an account.
    TokenId;
    /// The id of a route: a pattern of models, or a group of routes.
    RouteId;
    /// The id of a channel of a route: an account, and maybe one of its tokens.
    ChannelId;
    /// The id of a route unit: accounts that serve as one.
    UnitId;
    /// The id of the membership of an account in a route unit.
    MemberId;
    /// The id of a downstream key.
    KeyId;
    /// The id of a batch of a client at an upstream.
    BatchId;
    /// The id of a file that a client uploaded to the gateway.
    FileId;
    /// The id of a video of a client at an upstream.
    VideoId;
    /// The id of a background response whose usage is not booked yet.
    BackgroundResponseId;
    /// The id of a row of the proxy log.
    LogId;
    /// The id of the recorded trace of one request.
    TraceId;
    /// The id of an attempt to check in an account at its site.
    CheckinId;
    /// The id of an announcement of a site.
    AnnouncementId;
    /// The id of a notice to the operator.
    EventId;
}

/// The server of a request: a channel, or a member of the route unit that a channel stands for. A member is identified
/// by its account, which belongs to one unit only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChannelOrMember {
    Channel(ChannelId),
    Member(AccountId),
}

impl ChannelOrMember {
    /// Returns one number for either: the channel's id, or the negative id of the account.
    pub const fn number(self) -> i64 {
        match self {
            Self::Channel(id) => id.0,
            Self::Member(account) => -account.0,
        }
    }
}

impl From<ChannelId> for ChannelOrMember {
    fn from(id: ChannelId) -> Self {
        Self::Channel(id)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    #[test]
    fn in_json_and_in_texts_an_id_is_its_number() {
        let id = AccountId::new(7);
        assert_eq!((format!("{id}"), format!("{id:?}")), ("7".to_owned(), "7".to_owned()));
        assert_eq!(json!({ "id": id, "ids": [id] }), json!({ "id": 7, "ids": [7] }));
        assert_eq!(serde_json::from_str::<Vec<SiteId>>("[7]").unwrap(), [SiteId::new(7)]);
        let by_id = BTreeMap::from([(id, 0.5)]);
        assert_eq!(serde_json::to_string(&by_id).unwrap(), r#"{"7":0.5}"#);
        assert_eq!(serde_json::from_str::<BTreeMap<AccountId, f64>>(r#"{"7":0.5}"#).unwrap(), by_id);
    }

    #[test]
    fn an_id_takes_the_room_of_a_number() {
        assert_eq!(size_of::<AccountId>(), size_of::<i64>());
    }
}
