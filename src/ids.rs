//! The ids of rows, a type for each kind of row, so that nobody takes the id of an account for that of its site.
//!
//! A number becomes an id where it comes in, which is to say what it numbers: a row of the store, a segment of a path,
//! a member of a JSON body. Inside there are ids only. In SQL, JSON and texts an id is its number.

use std::fmt;
use std::hash::Hash;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What every type of id has.
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
            /// The id of no row, and below that of every row.
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

        /// As the number, like every other text.
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
    /// An upstream site.
    SiteId;
    /// One address of a site's pool.
    EndpointId;
    /// An account at a site.
    AccountId;
    /// A managed token of an account.
    TokenId;
    /// A route: a pattern of models, or a group of routes.
    RouteId;
    /// A channel of a route: an account, and maybe one of its tokens.
    ChannelId;
    /// A route unit: accounts that serve as one.
    UnitId;
    /// The membership of an account in a route unit.
    MemberId;
    /// A downstream key.
    KeyId;
    /// A batch that a client has at an upstream.
    BatchId;
    /// A file that a client left here.
    FileId;
    /// A video that a client has at an upstream.
    VideoId;
    /// A response in the background that is not booked yet.
    BackgroundResponseId;
    /// A row of the log of requests.
    LogId;
    /// What was recorded of one request.
    TraceId;
    /// A try to check in an account at its site.
    CheckinId;
    /// An announcement of a site.
    AnnouncementId;
    /// A notice to the operator.
    EventId;
}

/// Who serves a request: a channel, or one of the members of the route unit that it stands for, by the account, which
/// is in one unit only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ServedBy {
    Channel(ChannelId),
    Member(AccountId),
}

impl ServedBy {
    /// One number for either: that of the channel, or below zero that of the account.
    pub const fn number(self) -> i64 {
        match self {
            Self::Channel(id) => id.0,
            Self::Member(account) => -account.0,
        }
    }
}

impl From<ChannelId> for ServedBy {
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
