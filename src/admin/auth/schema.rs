//! Requests and responses of the admin token routes.

use crate::admin::schema::Shape::*;
use crate::admin::schema::{Object, Operation, has, op};
use crate::admin::tasks::schema::MESSAGE;

pub static OPERATIONS: &[Operation] = &[
    op("GET /api/settings/auth/info", "The admin token, masked").gives(Of(&INFO)),
    op("POST /api/settings/auth/change", "Change the admin token").takes(&CHANGE).gives(Of(&MESSAGE)),
];

static INFO: Object = Object::new("AuthInfo", &[has("masked", Text)]);

pub static CHANGE: Object = Object::new("AuthChange", &[has("oldToken", Text), has("newToken", Text)]);
