use super::*;
use crate::upstream::WorkKind;

fn whole(body: &'static [u8]) -> HeldBody {
    HeldBody::whole(Bytes::from_static(body))
}

#[test]
fn only_what_happened_up_there_is_the_fault_of_the_channel() {
    for (kind, is_fault) in [
        (ErrorKind::Connect, true),
        (ErrorKind::Dns, true),
        (ErrorKind::Timeout, true),
        (ErrorKind::Closed, true),
        (ErrorKind::Exhausted, false),
        (ErrorKind::Expired, false),
    ] {
        let failure = Failure::network(kind, "the cause", ExchangeProgress::UNSENT);
        assert_eq!(failure.is_channel_fault(), is_fault, "{kind:?}");
        assert_eq!(failure.rotates_address(WorkKind::Text), is_fault, "{kind:?}");
        assert!(failure.may_retry(WorkKind::Text), "{kind:?}: a connection may be open elsewhere");
        assert!(!failure.of_one_address().is_channel_fault(), "{kind:?}: another address may do");
    }
}

#[test]
fn what_may_have_been_carried_out_is_not_asked_for_again() {
    let unsent = || Failure::network(ErrorKind::Connect, "the cause", ExchangeProgress::UNSENT);
    let lost =
        || Failure::network(ErrorKind::Closed, "the cause", ExchangeProgress::whole(ReplyKind::Nothing));
    let status = |status| Failure::status(status, "/x", &AnswerHeaders::default(), whole(b"{}"), 0);
    let late = Failure::first_byte_timeout(Duration::from_secs(1));
    for (failure, [text_here, text_elsewhere, creation_here, creation_elsewhere]) in [
        (unsent(), [true; 4]),
        (lost(), [false, true, false, false]),
        (late, [false, true, false, false]),
        (Failure::silence(Duration::from_secs(1)), [false, true, false, false]),
        (Failure::closed_early(), [false, true, false, false]),
        (Failure::judged("no id".to_owned()), [false, true, false, false]),
        (Failure::judged("a page".to_owned()).refused(), [false, true, false, true]),
        (status(503), [true; 4]),
        (status(504), [true, true, false, false]),
        (status(408), [true, true, false, false]),
        (status(400), [false; 4]),
    ] {
        assert_eq!(failure.rotates_address(WorkKind::Text), text_here, "{failure:?}");
        assert_eq!(failure.may_retry(WorkKind::Text), text_elsewhere, "{failure:?}");
        assert_eq!(failure.rotates_address(WorkKind::Creation), creation_here, "{failure:?}");
        assert_eq!(failure.may_retry(WorkKind::Creation), creation_elsewhere, "{failure:?}");
    }
}

#[test]
fn a_wait_that_the_body_tells_is_when_the_channel_works_again() {
    const GOOGLE: &[u8] = br#"{"error":{"code":429,"message":"m","details":[{"retryDelay":"4415.5s"}]}}"#;
    const RESET: &[u8] = br#"{"error":{"type":"usage_limit_reached","message":"m","resets_at":61}}"#;
    for (body, at, wait) in [(GOOGLE, 4_416_500, 4_415_500), (RESET, 61_000, 60_000)] {
        let failure = Failure::status(429, "/x", &AnswerHeaders::default(), whole(body), 1_000);
        assert_eq!(failure.recovers_at, Some(at));
        assert_eq!(failure.error.retry_after, Some(Duration::from_millis(wait)), "told to the client, too");
    }
}
