//! An operator's actions with downstream keys.

use serde_json::{Value, json};

use super::{Caller, Gateway};

/// Returns the path of a key in the admin API, given its item, followed by `rest`.
pub fn path_of_key(item: &Value, rest: &str) -> String {
    format!("/api/downstream-keys/{}{rest}", item["id"])
}

impl Gateway {
    /// Adds a downstream key; returns a client that uses it.
    #[track_caller]
    pub fn add_key(&self, key: &Value) -> Caller {
        self.admin().post("/api/downstream-keys", key).expect(200);
        self.with_token(key["key"].as_str().expect("a key"))
    }

    /// Adds this downstream key, with further fields; returns its item.
    #[track_caller]
    pub fn create_key(&self, key: &str, fields: &Value) -> Value {
        let mut body = json!({"name": "team", "key": key});
        body.as_object_mut().expect("an object").extend(fields.as_object().expect("fields").clone());
        self.admin().post("/api/downstream-keys", &body).expect(200)["item"].clone()
    }

    /// Changes these fields of a key; returns its new item.
    #[track_caller]
    pub fn change_key(&self, item: &Value, fields: &Value) -> Value {
        self.admin().put(&path_of_key(item, ""), fields).expect(200)["item"].clone()
    }

    /// Returns the tokens and requests that the first budget of the only key counts.
    #[track_caller]
    pub fn used_of_budget(&self) -> (u64, u64) {
        let list = self.admin().get("/api/downstream-keys").expect(200);
        let used = &list["items"][0]["budgets"][0]["used"];
        (used["tokens"].as_u64().expect("tokens"), used["requests"].as_u64().expect("requests"))
    }
}
