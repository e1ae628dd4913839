//! Databases of other gateways, created by the statements that those programs use.

use serde_json::json;

use super::{Move, channel, channels, find, keys, list};
use crate::support::{Request, Setup, Upstream, run};

/// The tables that new-api's ORM creates for `model.Channel`, `model.Token` and `model.User`.
const NEW_API: &str = "
CREATE TABLE `channels` (`id` integer PRIMARY KEY AUTOINCREMENT,`type` integer DEFAULT 0,`key` text NOT NULL,`open_ai_organization` text,
  `test_model` text,`status` integer DEFAULT 1,`name` text,`weight` integer DEFAULT 0,`created_time` integer,`test_time` integer,
  `response_time` integer,`base_url` text DEFAULT \"\",`other` text,`balance` real,`balance_updated_time` integer,`models` text,
  `group` varchar(64) DEFAULT \"default\",`used_quota` integer DEFAULT 0,`model_mapping` text,`status_code_mapping` varchar(1024) DEFAULT \"\",
  `priority` integer DEFAULT 0,`auto_ban` integer DEFAULT 1,`other_info` text,`tag` text,`setting` text,`param_override` text,
  `header_override` text,`remark` varchar(255),`channel_info` json,`settings` text);
CREATE TABLE `tokens` (`id` integer PRIMARY KEY AUTOINCREMENT,`user_id` integer,`key` char(48),`status` integer DEFAULT 1,`name` text,
  `created_time` integer,`accessed_time` integer,`expired_time` integer DEFAULT -1,`remain_quota` integer DEFAULT 0,
  `unlimited_quota` numeric,`model_limits_enabled` numeric,`model_limits` varchar(1024) DEFAULT \"\",`allow_ips` text DEFAULT \"\",
  `used_quota` integer DEFAULT 0,`group` text DEFAULT \"\",`deleted_at` datetime);
CREATE UNIQUE INDEX `idx_tokens_key` ON `tokens`(`key`);
CREATE TABLE `users` (`id` integer PRIMARY KEY AUTOINCREMENT,`username` text UNIQUE,`password` text NOT NULL,`role` integer DEFAULT 1,
  `status` integer DEFAULT 1,`quota` integer DEFAULT 0,`deleted_at` datetime);
CREATE TABLE `abilities` (`group` varchar(64),`model` varchar(255),`channel_id` integer,`enabled` numeric,`priority` integer DEFAULT 0,
  `weight` integer DEFAULT 0,PRIMARY KEY (`group`,`model`,`channel_id`));
CREATE TABLE `options` (`key` text PRIMARY KEY,`value` text);
";

/// The tables that one-api's ORM creates.
const ONE_API: &str = "
CREATE TABLE `channels` (`id` integer,`type` integer DEFAULT 0,`key` text,`status` integer DEFAULT 1,`name` text,`weight` integer DEFAULT 0,
  `created_time` integer,`test_time` integer,`response_time` integer,`base_url` text DEFAULT \"\",`other` text,`balance` real,
  `balance_updated_time` integer,`models` text,`group` text DEFAULT \"default\",`used_quota` integer DEFAULT 0,`model_mapping` text DEFAULT \"\",
  `priority` integer DEFAULT 0,`config` text,`system_prompt` text,PRIMARY KEY (`id`));
CREATE TABLE `tokens` (`id` integer,`user_id` integer,`key` char(48),`status` integer DEFAULT 1,`name` text,`created_time` integer,
  `accessed_time` integer,`expired_time` integer DEFAULT -1,`remain_quota` integer DEFAULT 0,`unlimited_quota` numeric DEFAULT false,
  `used_quota` integer DEFAULT 0,`models` text,`subnet` text DEFAULT \"\",PRIMARY KEY (`id`));
";

#[test]
fn the_channels_of_new_api_become_sites_accounts_and_channels() {
    let moving = Move::of_database("one-api.db", &format!("{NEW_API}
        INSERT INTO channels (id,type,key,status,name,weight,base_url,balance,models,model_mapping,priority,channel_info) VALUES
          (1,1,'sk-first',1,'first',7,'https://one.example/',12.5,'gpt-4o,gpt-4o-mini','{{\"gpt-4o\":\"gpt-4o-2024\",\"gpt-4o-2024\":\"gpt-4o-last\"}}',10,'{{\"is_multi_key\":false}}'),
          (2,14,'sk-ant-a' || char(10) || 'sk-ant-b' || char(10) || 'sk-ant-a',1,'claude',8,'https://claude.example',0,'claude-x,gpt-4o','',3,
             '{{\"is_multi_key\":true,\"multi_key_size\":2,\"multi_key_status_list\":{{\"1\":2}}}}'),
          (3,43,'[\"k1\",\"k2\"]',1,'deep',0,'https://deep.example',0,'deepseek-chat','',0,'{{\"is_multi_key\":true}}'),
          (4,1,'sk-off',3,'off',0,'https://off.example',0,'gpt-4o','',10,NULL),
          (5,45,'ark',2,'ark',0,'https://ark.example',0,'doubao','not json',-5,NULL),
          (6,3,'azure-secret',1,'azure',0,'https://az.example',0,'gpt-4o','',0,NULL);
        UPDATE channels SET created_time=1767323045, test_time=1767323046, used_quota=9, other='2024-02-01' WHERE id = 1;
        UPDATE channels SET created_time=1767323045000 WHERE id = 4; UPDATE channels SET created_time=9223372036854775807 WHERE id = 5;
        INSERT INTO channels (id,type,key,name,base_url,models) VALUES (7,26,'zhipu','plan','glm-coding-plan','glm-5'),
          (8,57,'{{\"access_token\":\"at-1\",\"account_id\":\"acc-1\"}}','login','https://chatgpt.com','gpt-5-codex');
        INSERT INTO users (id,username,password,quota) VALUES (1,'root','hash-of-a-password',5);
        INSERT INTO options VALUES ('SMTPToken','an-old-secret');"));
    let told = moving.import(&[]);
    assert!(told.contains("database of new-api"), "{told}");
    for told_of in [
        "azure",
        "Azure OpenAI",
        "users (1 rows)",
        "options (1 rows)",
        "key 3",
        "model mapping",
        "channels.test_time (1 rows)",
        "channels.used_quota (1 rows)",
        "channels.other (1 rows)",
    ] {
        assert!(told.contains(told_of), "{told_of} in {told}");
    }
    for secret in ["sk-first", "sk-ant", "azure-secret", "an-old-secret", "hash-of-a-password"] {
        assert!(!told.contains(secret), "{secret} in {told}");
    }

    let gateway = moving.start();
    let sites = list(&gateway, "/api/sites");
    for (url, platform) in [
        ("https://one.example", "openai"),
        ("https://claude.example", "claude"),
        ("https://deep.example", "openai"),
        ("https://off.example", "openai"),
        ("https://ark.example/api/v3", "openai"),
        ("https://open.bigmodel.cn/api/coding/paas/v4", "openai"),
        ("https://chatgpt.com/backend-api/codex", "codex"),
    ] {
        assert_eq!(find(&sites, "url", url)["platform"], platform, "{url}");
    }
    assert_eq!(sites.len(), 7);
    let accounts = list(&gateway, "/api/accounts");
    let account = |name: &str| find(&accounts, "username", name);
    assert_eq!(account("first")["balance"], 12.5);
    assert_eq!(account("first")["createdAt"], "2026-01-02T03:04:05.000Z");
    assert_eq!(account("off")["createdAt"], "2026-01-02T03:04:05.000Z", "a time in milliseconds");
    for (name, status) in [
        ("first", "active"),
        ("claude #1", "active"),
        ("claude #2", "disabled"),
        ("deep #1", "active"),
        ("deep #2", "active"),
        ("off", "disabled"),
        ("ark", "disabled"),
    ] {
        assert_eq!(account(name)["status"], status, "{name}");
    }
    // The highest priority is 10; the keys of a channel share its weight.
    assert_eq!(
        channels(&gateway, "gpt-4o"),
        [
            channel("first", "gpt-4o-last", 0, 7, true),
            channel("off", "gpt-4o", 0, 1, true),
            channel("claude #1", "gpt-4o", 7, 4, true),
            channel("claude #2", "gpt-4o", 7, 4, true),
        ]
    );
    assert_eq!(channels(&gateway, "gpt-4o-mini"), [channel("first", "gpt-4o-mini", 0, 7, true)]);
    assert_eq!(
        channels(&gateway, "deepseek-chat"),
        [
            channel("deep #1", "deepseek-chat", 10, 10, true),
            channel("deep #2", "deepseek-chat", 10, 10, true),
        ]
    );
    assert_eq!(channels(&gateway, "doubao"), [channel("ark", "doubao", 15, 10, true)]);
}

#[test]
fn priorities_of_new_api_that_are_too_far_apart_keep_their_order() {
    let moving = Move::of_database(
        "one-api.db",
        &format!(
            "{NEW_API}
            INSERT INTO channels (id,type,key,name,base_url,models,priority) VALUES
              (1,1,'sk-c','c','https://ok.example','m',1), (2,1,'sk-b','b','https://ok.example','m',10),
              (3,1,'sk-a','a','https://ok.example','m',1000000000000000000),
              (4,1,'sk-d','d','https://ok.example','m',-5), (5,1,'sk-e','e','https://ok.example','m',10);"
        ),
    );
    moving.import(&[]);
    let of_m = channels(&moving.start(), "m");
    let priorities: Vec<(&str, i64)> =
        of_m.iter().map(|(name, _, priority, ..)| (name.as_str(), *priority)).collect();
    assert_eq!(priorities, [("a", 0), ("b", 1), ("e", 1), ("c", 2), ("d", 3)]);
}

#[test]
fn the_tokens_of_new_api_become_keys_that_go_on_working() {
    let upstream = Upstream::start(&["model-a"]);
    let moving = Move::of_database("one-api.db", &format!("{NEW_API}
        INSERT INTO channels (id,type,key,name,base_url,models,model_mapping) VALUES
          (1,1,'sk-upstream','up','{}','model-a','');
        INSERT INTO users (id,username,password,status,deleted_at) VALUES (1,'root','x',1,NULL), (2,'gone','x',2,NULL), (3,'left','x',1,'2026-01-01 00:00:00');
        INSERT INTO tokens (id,user_id,key,status,name,expired_time,remain_quota,unlimited_quota,model_limits_enabled,model_limits,allow_ips,`group`,deleted_at) VALUES
          (1,1,'aaaaaaaaaaaaaaaa',1,'open',-1,0,1,0,'ignored','','vip',NULL),
          (2,1,'bbbbbbbbbbbbbbbb',1,'bounded',4102444800,1250000,0,1,'model-a,model-b','10.0.0.0/8','',NULL),
          (3,1,'cccccccccccccccc',4,'exhausted',-1,0,0,0,'','','',NULL),
          (4,2,'dddddddddddddddd',1,'of a blocked user',-1,0,1,0,'','','',NULL),
          (5,1,'eeeeeeeeeeeeeeee',1,'deleted',-1,0,1,0,'','','','2026-01-01 00:00:00'),
          (6,1,'ffffffffffffffff',1,'here',-1,0,1,0,'',' 127.0.0.1 ' || char(10) || '::1,' || char(10) || '127.0.0.1' || char(10) || 'home.example','',NULL),
          (7,1,'gggggggggggggggg',1,'nowhere',-1,0,1,0,'','home.example','',NULL),
          (8,1,'hhhhhhhhhhhhhhhh',1,'over',0,0,1,0,'','','',NULL),
          (9,3,'iiiiiiiiiiiiiiii',1,'of a deleted user',-1,0,1,0,'','','',NULL),
          (10,1,'jjjjjjjjjjjjjjjj',1,'in milliseconds',4102444800000,0,1,0,'','','',NULL),
          (11,1,'kkkkkkkkkkkkkkkk',1,'for ever',9223372036854775807,0,1,0,'','','',NULL);
        UPDATE tokens SET used_quota=7, accessed_time=1767323045 WHERE id < 3;", upstream.url()));
    let told = moving.import(&[]);
    for told_of in [
        "it was deleted",
        "imported disabled",
        "`home.example` is not an address",
        "none of the addresses",
        "tokens.used_quota (2 rows)",
        "tokens.accessed_time (2 rows)",
        "token 11 “for ever”: it expires after the year 9999",
    ] {
        assert!(told.contains(told_of), "{told_of} in {told}");
    }
    assert!(!told.contains("aaaaaaaa"), "{told}");
    let gateway = moving.start();
    let keys = keys(&gateway);
    let key = |name: &str| find(&keys, "name", name);
    let shown = |name: &str| {
        let key = key(name);
        json!([key["enabled"], key["maxCost"], key["expiresAt"], key["supportedModels"], key["groupName"]])
    };
    assert_eq!(shown("open"), json!([true, null, null, ["*"], "vip"]));
    assert_eq!(
        shown("bounded"),
        json!([true, 2.5, "2100-01-01T00:00:00.000Z", ["model-a", "model-b"], null])
    );
    assert_eq!(shown("exhausted"), json!([false, 0, null, ["*"], null]));
    assert_eq!(shown("of a blocked user"), json!([false, null, null, ["*"], null]));
    assert_eq!(shown("of a deleted user"), json!([false, null, null, ["*"], null]));
    assert_eq!(shown("in milliseconds"), json!([true, null, "2100-01-01T00:00:00.000Z", ["*"], null]));
    assert_eq!(shown("for ever"), json!([true, null, null, ["*"], null]));
    assert_eq!(keys.len(), 10);
    for (name, enabled, addresses) in [
        ("open", true, json!(null)),
        ("bounded", true, json!(["10.0.0.0/8"])),
        ("here", true, json!(["127.0.0.1", "::1"])),
        ("nowhere", false, json!(null)),
    ] {
        let key = key(name);
        assert_eq!((&key["enabled"], &key["allowedIps"]), (&json!(enabled), &addresses), "{name}");
    }
    assert_eq!(key("over")["expiresAt"], "1970-01-01T00:00:01.000Z");
    for (key, status) in [("b", 403), ("f", 200), ("g", 401), ("h", 401)] {
        let caller = gateway.anyone().with("authorization", &format!("Bearer sk-{}", key.repeat(16)));
        let answer = caller.chat("model-a");
        let refused = [401, 403].contains(&status) && [401, 403].contains(&answer.status);
        assert!(answer.status == status || refused, "{key}: {} {}", answer.status, answer.text());
    }
    let client = gateway.with_token("sk-aaaaaaaaaaaaaaaa");
    let answer = client.chat("model-a");
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn one_api_counts_its_kinds_of_upstreams_in_its_own_way() {
    let moving = Move::of_database("one-api.db", &format!("{ONE_API}
        INSERT INTO channels (id,type,key,name,base_url,models) VALUES
          (1,36,'d-key','deep','https://deep.example','deepseek-chat'), (2,40,'ark','ark','https://ark.example','doubao'), (3,43,'proxy-key','proxy','https://x.example','m'),
          (4,50,'c-key','compatible','https://c.example/v1','m2'), (5,8,'u-key','custom','https://u.example/v1/chat/completions','m3');
        INSERT INTO tokens (id,key,status,name,remain_quota,unlimited_quota,models,subnet) VALUES
          (1,'aaaaaaaaaaaaaaaa',1,'some',500000,0,'deepseek-chat','192.168.0.0/16'), (2,'bbbbbbbbbbbbbbbb',2,'off',0,1,NULL,'');"));
    let told = moving.import(&[]);
    assert!(told.contains("database of one-api") && told.contains("channel 3"), "{told}");
    let gateway = moving.start();
    let sites = list(&gateway, "/api/sites");
    for url in
        ["https://deep.example", "https://ark.example/api/v3", "https://c.example", "https://u.example"]
    {
        assert_eq!(find(&sites, "url", url)["platform"], "openai");
    }
    let keys = keys(&gateway);
    let some = find(&keys, "name", "some");
    assert_eq!((some["maxCost"].as_f64(), &some["supportedModels"]), (Some(1.0), &json!(["deepseek-chat"])));
    assert_eq!(some["allowedIps"], json!(["192.168.0.0/16"]));
    assert_eq!(find(&keys, "name", "off")["enabled"], false);
}

#[test]
fn a_running_service_takes_the_file_of_another_gateway_as_it_is() {
    let moving = Move::of_database("one-api.db", &format!("{NEW_API}
        INSERT INTO channels (id,type,key,name,base_url,models) VALUES (1,1,'sk-sent','sent','https://s.example','m'), (2,3,'az','azure','https://a.example','m');
        INSERT INTO tokens (id,key,name,unlimited_quota) VALUES (1,'aaaaaaaaaaaaaaaa','of a client',1);"));
    let gateway = moving.start();
    let send = |query: &str, body: &[u8]| {
        let path = format!("/api/settings/backup/import{query}");
        gateway
            .admin()
            .send(Request::new("POST", &path).header("content-type", "application/octet-stream").body(body))
    };
    let file = std::fs::read(&moving.file).expect("a file");
    let files = || moving.home.files().len();
    let before = files();
    let dry = send("?dryRun=1", &file).expect(200);
    assert_eq!((&dry["dryRun"], &dry["arrays"]["sites"]["created"]), (&json!(true), &json!(1)), "{dry}");
    assert_eq!(list(&gateway, "/api/accounts").len(), 0);
    let taken = send("", &file).expect(200);
    let warnings = taken["warnings"].to_string();
    assert!(warnings.contains("Azure OpenAI") && !taken.to_string().contains("sk-sent"), "{taken}");
    assert_eq!(channels(&gateway, "m"), [channel("sent", "m", 0, 10, true)]);
    assert_eq!(find(&keys(&gateway), "name", "of a client")["enabled"], true);
    // Existing data stays: another gateway's file is merged.
    let yaml = b"model_list:\n- {model_name: n, litellm_params: {model: openai/n, api_key: sk-of-yaml}}\n\
        - {model_name: v, litellm_params: {model: openai/v, api_key: os.environ/PATH}}\n";
    let taken = send("", yaml).expect(200);
    assert!(taken["warnings"].to_string().contains("which reads variables"), "{taken}");
    assert_eq!(list(&gateway, "/api/accounts").len(), 2);
    let ours = gateway.admin().get("/api/settings/backup/export").body;
    for (body, told_of) in [
        (&file[..100], "it cannot be read"),
        (b"- of no gateway", "not a known file of a gateway"),
        (b"\xff\xfe\x00", "neither text nor"),
        (b"", "not a known file of a gateway"),
        (&ours, "of Switchyard sealed"),
    ] {
        let refused = send("", body).expect(400)["message"].to_string();
        assert!(refused.contains(told_of), "{told_of} in {refused}");
    }
    assert_eq!(list(&gateway, "/api/accounts").len(), 2);
    assert_eq!(files(), before, "no copy is left");
}

#[test]
fn hostile_rows_are_named_and_the_others_are_taken() {
    let long = "x".repeat(2_000_000);
    let moving = Move::of_database("any-name.bin", &format!("{NEW_API}
        ALTER TABLE channels ADD COLUMN invented text;
        CREATE TABLE \"odd \"\"table\" (a); INSERT INTO \"odd \"\"table\" VALUES (1);
        CREATE VIEW redemptions AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n;
        INSERT INTO channels (id,type,key,name,base_url,models,priority,weight) VALUES
          (1,'1','sk-text-type','bad' || char(27) || '[31m name','https://ok.example','m,m,, re:x ,*',9223372036854775807,-3),
          (2,1,'sk-bad-url','bad url','https://user:pw@h.example','m',-9223372036854775808,0),
          (3,1,'sk' || char(13) || char(1) || 'control','control','https://ok.example','m',0,0),
          (4,1,'','no key','https://ok.example','m',0,0),
          (5,1,'sk-long','{long}','javascript:alert(1)','m',0,0),
          (6,1,'sk-same','a','https://ok.example','m',5,9), (7,1,'sk-same','b','https://OK.example/v1/','m',4,1),
          (8,X'00ff','sk-blob',X'80','https://ok.example','m2',0,0);
        INSERT INTO tokens (id,key,name,unlimited_quota) VALUES (1,'short','a',1), (2,'sk-short','b',1), (3,'a b c d e f','c',1);
        INSERT INTO tokens (id,key,name,remain_quota,expired_time) VALUES (4,'1234567890',NULL,-5,9223372036854775807);"));
    let told = moving.import(&[]);
    for told_of in [
        "channels.invented",
        "odd \"table",
        "bad url",
        "no key",
        "pattern",
        "visible ASCII",
        "twice",
        "two channels",
    ] {
        assert!(told.contains(told_of), "{told_of} in {told}");
    }
    assert!(!told.contains('\u{1b}') && !told.contains("user:pw") && !told.contains("sk-same"), "{told}");
    let gateway = moving.start();
    let of_m = channels(&gateway, "m");
    // One credential at one address is one account; of its two channels, the one that the file prefers counts.
    assert!(of_m.iter().any(|(name, _, _, weight, _)| (name.as_str(), *weight) == ("a", 9)), "{of_m:?}");
    assert_eq!(of_m[0].0, "bad [31m name");
    assert_eq!(find(&list(&gateway, "/api/sites"), "url", "https://ok.example")["platform"], "openai");
    let key = find(&keys(&gateway), "name", "token 4");
    assert_eq!((key["maxCost"].as_f64(), key["expiresAt"].is_null()), (Some(0.0), true));
}

#[test]
fn a_log_beside_a_database_is_read_and_neither_is_changed() {
    let moving = Move::of("one-api.db");
    let writer = rusqlite::Connection::open(&moving.file).expect("a database");
    writer
        .execute_batch(&format!(
            "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; {NEW_API}
             INSERT INTO channels (id,type,key,name,base_url,models) VALUES (1,1,'sk-logged','logged','https://l.example','m');"
        ))
        .expect("rows");
    let wal = moving.file.with_file_name("one-api.db-wal");
    let before = (std::fs::read(&moving.file).expect("a file"), std::fs::read(&wal).expect("a log"));
    assert!(!before.1.is_empty());
    moving.import(&[]);
    assert_eq!(before, (std::fs::read(&moving.file).expect("a file"), std::fs::read(&wal).expect("a log")));
    drop(writer);
    let gateway = moving.start();
    assert_eq!(find(&list(&gateway, "/api/accounts"), "username", "logged")["status"], "active");
}

#[test]
fn a_damaged_database_is_refused() {
    let moving = Move::of_database(
        "one-api.db",
        &format!(
            "{NEW_API} WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)
             INSERT INTO tokens (id,user_id,key,name) SELECT i, 1, 'key-' || i, 'token ' || i FROM n;"
        ),
    );
    let whole = std::fs::read(&moving.file).expect("a file");
    for lost in [1000, 2000, 4096] {
        std::fs::write(&moving.file, &whole[..whole.len() - lost]).expect("written");
        let (status, told) = moving.refuse(&[]);
        assert_eq!(status, 65, "{told}");
        assert!(!moving.home.data_dir().join("switchyard.db").exists(), "nothing was imported");
    }
}

#[test]
fn a_dry_run_tells_row_by_row_and_leaves_nothing_behind() {
    let moving = Move::of_database("one-api.db", &format!("{NEW_API}
        INSERT INTO channels (id,type,key,name,base_url,models) VALUES (1,1,'sk-looked-at','only','https://d.example','m');"));
    let told = moving.import(&["--dry-run"]);
    for told_of in ["created sites 1", "created accounts 1", "created tokenRoutes 1", "nothing was written"] {
        assert!(told.contains(told_of), "{told_of} in {told}");
    }
    assert!(!told.contains("sk-looked-at"), "{told}");
    assert!(!moving.home.data_dir().exists());
    moving.import(&[]);
    let again = moving.import(&["--dry-run", "--conflict", "skip"]);
    assert!(again.contains("skipped sites 1"), "{again}");
}

#[test]
fn who_serves_from_the_data_directory_is_not_worked_around() {
    let moving = Move::of_database("one-api.db", NEW_API);
    let gateway = moving.start();
    let (status, told) = moving.refuse(&[]);
    assert_eq!(status, 1);
    assert!(told.contains("another Switchyard process"), "{told}");
    drop(gateway);
}

#[test]
fn what_is_no_file_of_a_gateway_is_named() {
    for (sql, told_of) in
        [("CREATE TABLE notes (a)", "notes"), ("CREATE TABLE channels (id)", "not of metapi")]
    {
        let (status, told) = Move::of_database("x.db", sql).refuse(&[]);
        assert_eq!(status, 65, "{told}");
        assert!(told.contains(told_of), "{told}");
    }
    let broken = Move::of_text("x.db", "SQLite format 3\0 and nothing behind it");
    assert_eq!(broken.refuse(&[]).0, 65);
    let missing = run(&Setup::default(), &broken.home, &["import", "nowhere.db"]);
    assert_eq!(missing.status.code(), Some(66));
}
