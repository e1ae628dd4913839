//! Tables of addresses: how they are parsed, and why others are refused.

use super::*;

fn base(url: &str) -> BaseUrl {
    BaseUrl::parse(url, None).unwrap_or_else(|error| panic!("{url}: {error}"))
}

#[test]
fn paths_join_the_base_without_doubling_its_version() {
    for (url, path, target) in [
        ("https://api.example.com", "/v1/chat/completions", "/v1/chat/completions"),
        ("https://api.example.com/", "/v1/chat/completions", "/v1/chat/completions"),
        ("https://api.example.com/v1", "/v1/chat/completions", "/v1/chat/completions"),
        ("https://api.example.com/v1//", "/v1/chat/completions", "/v1/chat/completions"),
        ("https://api.example.com/api/v1", "/v1/models", "/api/v1/models"),
        ("https://api.example.com/api", "/v1/models", "/api/v1/models"),
        (
            "https://open.example.cn/api/coding/paas/v4",
            "/v1/chat/completions",
            "/api/coding/paas/v4/chat/completions",
        ),
        ("https://open.example.cn/v1.1", "/v1/models", "/v1.1/models"),
        ("https://open.example.cn/v1.", "/v1/models", "/v1./v1/models"),
        ("https://g.example.com/v1beta", "/v1/models", "/v1beta/models"),
        ("https://g.example.com/v1beta/openai", "/chat/completions", "/v1beta/openai/chat/completions"),
        ("https://api.example.com/v", "/v1/models", "/v/v1/models"),
        ("https://api.example.com/v1alpha", "/v1/models", "/v1alpha/models"),
        ("https://api.example.com/v1", "/v1beta/models", "/v1/models"),
        ("https://api.example.com/v1alpha", "/v1beta/models/m:act", "/v1alpha/models/m:act"),
        ("https://api.example.com/v1beta", "/v1beta/models", "/v1beta/models"),
        ("https://api.example.com/v1", "/v1", "/v1"),
        ("https://chat.example.com/backend-api/codex", "/responses", "/backend-api/codex/responses"),
        ("https://a.example.com/v1?key=k", "/v1/models", "/v1/models?key=k"),
        ("https://a.example.com?key=k&x=1", "/v1/models", "/v1/models?key=k&x=1"),
        ("https://a.example.com?key=k", "/v1/x:stream?alt=sse", "/v1/x:stream?alt=sse&key=k"),
        ("https://a.example.com/#top", "/v1/models", "/v1/models"),
        ("https://a.example.com", "", "/"),
        ("https://a.example.com", "/v1/models/a b{c}", "/v1/models/a%20b%7Bc%7D"),
        ("https://a.example.com", "/v1/models/ü", "/v1/models/%C3%BC"),
    ] {
        let joined = base(url).join(path);
        // The path's letters may be sent as they are or percent-encoded; both name the same resource.
        let plain = percent_decode_str(joined.as_str()).decode_utf8_lossy();
        assert_eq!(plain, percent_decode_str(target).decode_utf8_lossy(), "{url} + {path}");
    }
}

#[test]
fn an_address_gives_its_origin_and_host_header() {
    for (url, tls, host, port, authority) in [
        ("https://API.Example.com/v1", true, "api.example.com", 443, "api.example.com"),
        ("HTTP://example.com:80", false, "example.com", 80, "example.com"),
        ("http://example.com:443", false, "example.com", 443, "example.com:443"),
        ("https://example.com:8443/x", true, "example.com", 8443, "example.com:8443"),
        (" http://127.0.0.1:8317 ", false, "127.0.0.1", 8317, "127.0.0.1:8317"),
        ("http://[::1]:3000/v1", false, "::1", 3000, "[::1]:3000"),
        ("https://[2001:DB8:0::1]", true, "2001:db8::1", 443, "[2001:db8::1]"),
        ("https://example.com:", true, "example.com", 443, "example.com"),
        ("https://example.com?x=1", true, "example.com", 443, "example.com"),
    ] {
        let base = base(url);
        assert_eq!(
            (base.origin.tls, base.origin.host.as_str(), base.origin.port),
            (tls, host, port),
            "{url}"
        );
        assert_eq!(base.origin.authority, authority, "{url}");
    }
}

#[test]
fn an_address_written_as_a_url_reads_back_as_itself() {
    for (url, written) in [
        ("https://API.example.com/", "https://api.example.com"),
        ("http://a.example.com:8080/api/v1//?key=k#top", "http://a.example.com:8080/api/v1?key=k"),
        ("https://[::1]:4000/v1?a=1&b", "https://[::1]:4000/v1?a=1&b"),
    ] {
        assert_eq!(base(url).url(), written);
        assert_eq!(base(written).url(), written);
    }
}

#[test]
fn an_unusable_address_is_refused_with_advice() {
    for (url, advice) in [
        ("", "scheme"),
        ("example.com", "scheme"),
        ("ftp://example.com", "http:// or https://"),
        ("https://", "lacks a host"),
        ("https:///v1", "lacks a host"),
        ("https://user:secret@example.com", "user name or password"),
        ("https://münchen.example", "xn--"),
        ("https://exa mple.com", "not a host name"),
        ("https://example.com:0", "not a port"),
        ("https://example.com:99999", "not a port"),
        ("https://example.com:+80", "not a port"),
        ("https://example.com:80x", "not a port"),
        ("https://::1", "brackets"),
        ("https://[::1", "bracket"),
        ("https://[::1]x", "only a port"),
        ("https://[fe80::1%25eth0]", "not an IPv6"),
        ("https://example.com/a b", "percent-encoded"),
        ("https://example.com/a\\b", "percent-encoded"),
        ("https://example.com/a?b=\r\n", "percent-encoded"),
    ] {
        let url = if url.ends_with('\n') { format!("{url}c") } else { url.to_owned() };
        let error = BaseUrl::parse(&url, None).expect_err(&url);
        assert!(error.contains(advice), "{url}: {error}");
        assert!(!error.contains("secret"));
    }
}

#[test]
fn origins_are_equal_when_a_connection_may_be_shared() {
    let proxy = || Some(Arc::new(OutboundProxy::parse("socks5h://127.0.0.1:1080").unwrap()));
    let origin = Origin::new(true, "Example.com", 443, None);
    assert_eq!(origin, Origin::new(true, "example.com", 443, None));
    assert_ne!(origin, Origin::new(false, "example.com", 443, None));
    assert_ne!(origin, Origin::new(true, "example.com", 443, proxy()));
    assert_eq!(
        Origin::new(true, "example.com", 443, proxy()),
        Origin::new(true, "example.com", 443, proxy())
    );
    assert_eq!(*base("https://example.com/v1").origin, *base("https://EXAMPLE.com:443").origin);
}

#[test]
fn proxies_are_read_with_their_schemes_and_credentials() {
    for (text, scheme, host, port, credentials) in [
        ("http://proxy:3128", ProxyScheme::Http, "proxy", 3128, None),
        ("http://proxy", ProxyScheme::Http, "proxy", 80, None),
        ("https://proxy/", ProxyScheme::Https, "proxy", 443, None),
        ("socks://proxy", ProxyScheme::Socks5h, "proxy", 1080, None),
        ("socks4://proxy", ProxyScheme::Socks4, "proxy", 1080, None),
        ("socks4a://proxy:9", ProxyScheme::Socks4a, "proxy", 9, None),
        ("SOCKS5://Proxy", ProxyScheme::Socks5, "proxy", 1080, None),
        ("socks5h://[::1]:1081", ProxyScheme::Socks5h, "::1", 1081, None),
        ("http://ann:p%40ss%3Aword@proxy:1", ProxyScheme::Http, "proxy", 1, Some(("ann", "p@ss:word"))),
        ("socks5://ann@proxy", ProxyScheme::Socks5, "proxy", 1080, Some(("ann", ""))),
        ("socks5://@proxy", ProxyScheme::Socks5, "proxy", 1080, None),
    ] {
        let proxy = OutboundProxy::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!((proxy.scheme, proxy.host.as_str(), proxy.port), (scheme, host, port), "{text}");
        let credentials = credentials.map(|(user, password)| (user.to_owned(), password.to_owned()));
        assert_eq!(proxy.credentials, credentials, "{text}");
    }
    for text in [
        "",
        "proxy:3128",
        "ftp://proxy",
        "http://",
        "http://proxy/path",
        "http://a:b@",
        "socks6://x",
        "http://x:y",
        "http://%FF@x",
        "socks4://ann@x",
        "socks4a://ann:b@x",
        &format!("socks5://ann:{}@x", "b".repeat(256)),
    ] {
        assert!(OutboundProxy::parse(text).is_err(), "{text}");
    }
}

#[test]
fn credentials_and_queries_stay_out_of_debug_output() {
    let proxy = Arc::new(OutboundProxy::parse("http://ann:hunter2@proxy:1").unwrap());
    let base = BaseUrl::parse("https://example.com/v1?key=hunter2", Some(proxy)).unwrap();
    for shown in [format!("{base:?}"), format!("{:?}", base.origin)] {
        assert!(!shown.contains("hunter2") && !shown.contains("ann"), "{shown}");
    }
}

#[test]
fn an_address_without_its_ending_joins_like_one_that_never_had_it() {
    let base = BaseUrl::parse("https://h.example/relay/v1", None).expect("an address");
    assert_eq!(base.join("/v1/models").as_str(), "/relay/v1/models");
    let base = base.without(&["/api/v1", "/v1"]);
    assert_eq!(base.path, "/relay");
    assert_eq!(base.join("/v1/models").as_str(), "/relay/v1/models");
    assert_eq!(base.join("/api/user/self").as_str(), "/relay/api/user/self");
}

#[test]
fn a_name_in_a_path_stays_data() {
    for (name, written) in [
        ("gemini-2.5-pro", "gemini-2.5-pro"),
        ("org/model:free", "org/model:free"),
        ("tunedModels/mine-1", "tunedModels/mine-1"),
        ("a?key=b#c", "a%3Fkey=b%23c"),
        ("%3F%2e%2e", "%253F%252e%252e"),
        ("..;/x", "..%3B/x"),
        ("...", "..."),
        ("a b\\c", "a%20b%5Cc"),
        ("größe", "gr%C3%B6%C3%9Fe"),
    ] {
        assert_eq!(path_segments(name).as_deref(), Ok(written), "{name}");
        assert_eq!(percent_decode_str(written).decode_utf8_lossy(), name);
    }
    for name in ["", ".", "..", "gemini-x/../../..", "a/./b", "a//b", "/a", "a/"] {
        assert!(path_segments(name).is_err(), "{name}");
    }
}
