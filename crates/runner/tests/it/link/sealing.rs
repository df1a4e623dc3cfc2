//! Upstreams that outlive the server.

use runner::link::{AddressPolicy, Outbound, SEAL_LABEL, Terms, UnsealError, Upstreams};
use sandbox::AccessTokens;
use serde_json::json;
use wire::run::RunId;

use super::harness::{Inside, Upstream, answer, terms};

#[tokio::test]
async fn sealed_upstreams_work_again_with_what_was_spent() {
    let upstream = Upstream::start(|_| answer(200, "application/json", "{}")).await;
    let key = AccessTokens::new([7; 32]).derive(SEAL_LABEL);
    let run = RunId::from_random([1; 15]);
    let config = json!({
        "model": {"provider": "openai", "base_url": upstream.url, "api_key": "sk-secret"},
        "workspace": {"url": format!("{}/w", upstream.url)},
    });
    let (upstreams, _) = Upstreams::inline(config, Terms { tokens: Some(100), ..terms() }).unwrap();
    let sealed = upstreams.seal(&run, &key).unwrap();
    for secret in ["sk-secret", "127.0.0.1", "http"] {
        let found = sealed.windows(secret.len()).any(|window| window == secret.as_bytes());
        assert!(!found, "{secret} can be read");
    }
    let outbound = || Outbound::new(AddressPolicy::Standard).unwrap();
    let opened = Upstreams::unseal(&sealed, &run, &key, outbound(), 99).unwrap();
    assert_eq!(opened.spent(), 99);
    let inside = Inside::of(opened);
    assert_eq!(inside.get("/workspace/x").await.status, 200);
    assert_eq!(inside.post("/model/chat/completions", "{}").await.status, 200);
    assert_eq!(upstream.last().header("authorization"), Some("Bearer sk-secret"));

    let spent = Inside::of(Upstreams::unseal(&sealed, &run, &key, outbound(), 100).unwrap());
    let refusal = spent.post("/model/chat/completions", "{}").await.refusal();
    assert_eq!(refusal, (429, "token_budget".to_owned()));
}

#[tokio::test]
async fn what_was_tampered_with_does_not_open() {
    let key = AccessTokens::new([7; 32]).derive(SEAL_LABEL);
    let run = RunId::from_random([1; 15]);
    let upstreams = Upstreams::callbacks("http://h/agent", terms()).unwrap();
    let sealed = upstreams.seal(&run, &key).unwrap();
    let outbound = Outbound::new(AddressPolicy::Standard).unwrap();
    let open = |bytes: &[u8], run: &RunId, key: &_| {
        Upstreams::unseal(bytes, run, key, outbound.clone(), 0).map(|_| ()).unwrap_err()
    };
    let former_version = [&[1], &sealed[1..]].concat();
    assert_eq!(open(&former_version, &run, &key), UnsealError::Form);
    for at in 1..sealed.len() {
        let mut changed = sealed.clone();
        changed[at] ^= 1;
        assert_eq!(open(&changed, &run, &key), UnsealError::Forged, "byte {at}");
    }
    let another_run = RunId::from_random([2; 15]);
    assert_eq!(open(&sealed, &another_run, &key), UnsealError::Forged);
    let another_key = AccessTokens::new([8; 32]).derive(SEAL_LABEL);
    assert_eq!(open(&sealed, &run, &another_key), UnsealError::Forged);
    for cut in [0, 1, 24] {
        assert_eq!(open(&sealed[..cut], &run, &key), UnsealError::Form);
    }
    assert_eq!(open(&sealed[..sealed.len() - 1], &run, &key), UnsealError::Forged);
    assert_ne!(upstreams.seal(&run, &key).unwrap(), sealed, "the nonce is random");
}

#[test]
fn no_secret_is_in_what_debug_prints() {
    let config = json!({"model": {"provider": "openai", "api_key": "sk-secret"}});
    let (upstreams, _) = Upstreams::inline(config, terms()).unwrap();
    assert!(!format!("{upstreams:?}").contains("sk-secret"));
}
