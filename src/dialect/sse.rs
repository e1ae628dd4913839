//! An incremental reader of server-sent events.
