//! Blobs in a bucket of AWS, or of any server that speaks S3.

use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::{ClientOptions, RetryConfig};
use url::Url;

use super::OpenBlobsError;

/// What says who we are and where, with the names that AWS's own tools use.
const ENVIRONMENT: [(&str, AmazonS3ConfigKey); 11] = [
    ("AWS_ACCESS_KEY_ID", AmazonS3ConfigKey::AccessKeyId),
    ("AWS_SECRET_ACCESS_KEY", AmazonS3ConfigKey::SecretAccessKey),
    ("AWS_SESSION_TOKEN", AmazonS3ConfigKey::Token),
    ("AWS_DEFAULT_REGION", AmazonS3ConfigKey::DefaultRegion),
    ("AWS_REGION", AmazonS3ConfigKey::Region),
    ("AWS_WEB_IDENTITY_TOKEN_FILE", AmazonS3ConfigKey::WebIdentityTokenFile),
    ("AWS_ROLE_ARN", AmazonS3ConfigKey::RoleArn),
    ("AWS_ROLE_SESSION_NAME", AmazonS3ConfigKey::RoleSessionName),
    ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", AmazonS3ConfigKey::ContainerCredentialsRelativeUri),
    ("AWS_CONTAINER_CREDENTIALS_FULL_URI", AmazonS3ConfigKey::ContainerCredentialsFullUri),
    ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", AmazonS3ConfigKey::ContainerAuthorizationTokenFile),
];

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A server that says nothing for so long is not there. There is no limit to
/// the whole: a large blob read slowly takes its time.
const SILENCE: Duration = Duration::from_secs(60);
/// A request that failed is made again, but somebody is waiting.
const RETRIES: usize = 3;
const RETRY_TIMEOUT: Duration = Duration::from_secs(30);

/// What the URL says.
#[derive(Debug, PartialEq, Eq)]
struct Bucket {
    name: String,
    prefix: String,
    endpoint: Option<String>,
    region: Option<String>,
}

/// Sets the client up, without asking the server. The second is what every
/// key begins with.
pub(super) fn open(
    url: &str,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<(AmazonS3, String), OpenBlobsError> {
    let bucket = parse(url).map_err(OpenBlobsError::Url)?;
    let plain = bucket.endpoint.as_ref().is_some_and(|endpoint| endpoint.starts_with("http:"));
    let client = ClientOptions::new()
        .with_allow_http(plain)
        .with_connect_timeout(CONNECT_TIMEOUT)
        .with_read_timeout(SILENCE)
        .with_timeout_disabled();
    let retry = RetryConfig {
        max_retries: RETRIES,
        retry_timeout: RETRY_TIMEOUT,
        ..RetryConfig::default()
    };
    let mut builder = AmazonS3Builder::new().with_client_options(client).with_retry(retry);
    for (name, key) in ENVIRONMENT {
        if let Some(value) = environment(name) {
            builder = builder.with_config(key, value);
        }
    }
    builder = builder.with_bucket_name(bucket.name);
    if let Some(endpoint) = bucket.endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    if let Some(region) = bucket.region {
        builder = builder.with_region(region);
    }
    let store = builder.build().map_err(OpenBlobsError::Setup)?;
    Ok((store, bucket.prefix))
}

/// An error never repeats the URL: somebody may have put a key into it.
fn parse(url: &str) -> Result<Bucket, String> {
    let url = Url::parse(url).map_err(|error| format!("does not read: {error}"))?;
    if url.scheme() != "s3" {
        return Err("does not begin with `s3://`".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("has a key in it, which belongs into the environment".to_owned());
    }
    let name = url.host_str().unwrap_or_default();
    if name.is_empty() {
        return Err("names no bucket".to_owned());
    }
    let mut bucket = Bucket {
        name: name.to_owned(),
        prefix: url.path().trim_matches('/').to_owned(),
        endpoint: None,
        region: None,
    };
    for (name, value) in url.query_pairs() {
        match name.as_ref() {
            "endpoint" if value.starts_with("http://") || value.starts_with("https://") => {
                bucket.endpoint = Some(value.trim_end_matches('/').to_owned());
            }
            "endpoint" => {
                return Err("has an `endpoint` without `http://` or `https://`".to_owned());
            }
            "region" => bucket.region = Some(value.into_owned()),
            other => return Err(format!("has `{other}`, but only `endpoint` and `region` count")),
        }
    }
    Ok(bucket)
}

#[cfg(test)]
mod tests {
    use super::{Bucket, parse};

    #[test]
    fn a_url_names_bucket_prefix_endpoint_and_region() {
        let parsed = parse("s3://bags/a/b/?endpoint=http://127.0.0.1:8333/&region=eu-1").unwrap();
        let expected = Bucket {
            name: "bags".to_owned(),
            prefix: "a/b".to_owned(),
            endpoint: Some("http://127.0.0.1:8333".to_owned()),
            region: Some("eu-1".to_owned()),
        };
        assert_eq!(parsed, expected);
        let bare = parse("s3://bags").unwrap();
        assert_eq!((bare.name.as_str(), bare.prefix.as_str()), ("bags", ""));
        assert_eq!((bare.endpoint, bare.region), (None, None));
    }

    #[test]
    fn a_url_that_is_not_one_of_a_bucket_is_refused() {
        for (url, reason) in [
            ("bags", "does not read"),
            ("https://bags", "does not begin with `s3://`"),
            ("s3://", "names no bucket"),
            ("s3:///prefix", "names no bucket"),
            ("s3://me:hunter2@bags", "has a key in it"),
            ("s3://bags?endpoint=127.0.0.1:8333", "has an `endpoint` without"),
            ("s3://bags?acl=public", "has `acl`"),
        ] {
            let refused = parse(url).unwrap_err();
            assert!(refused.starts_with(reason), "{url}: {refused}");
            assert!(!refused.contains("hunter2"));
        }
    }
}
