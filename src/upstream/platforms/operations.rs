//! The operations of a site client, each dispatched to the module of its platform.
//!
//! Every operation ends within [`SiteClient::limits`], all its calls together. An operation that a platform does not
//! have fails with [`SiteErrorKind::Unsupported`], and no request is sent.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use super::contract::{
    Announcement, Balance, CheckIn, Identity, KnowsKey, LoggedIn, NewSiteKey, Refreshed, SessionModels,
    SiteKey, TakenFor, User,
};
use super::credential::{bare_credential, leave_out};
use super::error::{SiteError, SiteErrorKind};
use super::models::{DiscoveryError, DiscoveryKind};
use super::site_client::SiteClient;
use super::{new_api, sub2api};
use crate::error_words::sites;
use crate::money::Usd;
use crate::platform::Management;
use crate::routing::Secret;
use crate::time::Millis;
use crate::upstream::Client;

/// The longest time that a proved session waits for the list of its keys.
const KEYS_WAIT: Duration = Duration::from_secs(4);
/// The part of a verification's time limit in which it does not look for keys, so that a proved session is still reported
/// in time.
const RESERVE: Duration = Duration::from_secs(1);

type Identified<'a> = Pin<Box<dyn Future<Output = Result<Identity, SiteError>> + Send + 'a>>;

impl SiteClient {
    /// Opens a session with a name and a password.
    ///
    /// # Errors
    /// [`SiteErrorKind::Shield`] for any web page in place of an answer, [`SiteErrorKind::Refused`] with the site's
    /// words.
    pub async fn login(
        &self,
        client: &Client,
        username: &str,
        password: &str,
    ) -> Result<LoggedIn, SiteError> {
        let mut login = match self.management("login")? {
            Management::NewApi(_) => {
                self.bounded(new_api::login::login(self, client, username, password)).await?
            }
            Management::Sub2Api => self.bounded(sub2api::login(self, client, username, password)).await?,
        };
        let mut mask = self.mask();
        mask.add(login.credential.expose());
        login.username.iter_mut().for_each(|name| mask.hide_in_name(name));
        Ok(login)
    }

    /// Returns the user of the session.
    pub async fn user(&self, client: &Client) -> Result<User, SiteError> {
        let mut user = match self.management("user information")? {
            Management::NewApi(_) => self.bounded(new_api::account(self, client)).await?.0,
            Management::Sub2Api => self.bounded(sub2api::account(self, client)).await?.0,
        };
        user.hide(&self.mask());
        Ok(user)
    }

    /// Returns the balance: what is left, and what has been used.
    pub async fn balance(&self, client: &Client) -> Result<Balance, SiteError> {
        let mut balance = match self.management("a balance")? {
            Management::NewApi(_) => self.bounded(new_api::account(self, client)).await?.1?,
            Management::Sub2Api => self.bounded(sub2api::balance(self, client)).await?,
        };
        balance.hide(&self.mask());
        Ok(balance)
    }

    /// Returns what the account was given between two moments, by the site's own log; `None` where no log tells.
    pub async fn today_income(
        &self,
        client: &Client,
        start: Millis,
        end: Millis,
    ) -> Result<Option<Usd>, SiteError> {
        match &self.platform.profile().management {
            Some(Management::NewApi(fork)) if fork.logs_income => {
                self.bounded(new_api::income::between(self, client, fork, start, end)).await.map(Some)
            }
            Some(Management::NewApi(_) | Management::Sub2Api) | None => Ok(None),
        }
    }

    /// Does the daily check-in. An `Err` carries the site's own words, also for "already checked in".
    pub async fn check_in(&self, client: &Client) -> Result<CheckIn, SiteError> {
        let unsupported = || {
            let message =
                format!("checkin endpoint not found: check-in is not supported by {}", self.platform);
            Err(SiteError::unsupported(&message))
        };
        match &self.platform.profile().management {
            Some(Management::NewApi(fork)) => match fork.check_in {
                Some(route) => {
                    let checked =
                        self.bounded(new_api::check_in::check_in(self, client, (fork, route))).await?;
                    Ok(CheckIn { message: self.conceal(checked.message), ..checked })
                }
                None => unsupported(),
            },
            Some(Management::Sub2Api) | None => unsupported(),
        }
    }

    /// Finds out what the session's text is: an API key, when `listed` gives the models of one, or a session. Both are
    /// tried at once, first what the text is taken for. A site that wants the user's number has recognised a session: for
    /// a text taken for a session the search ends there, for one taken for a key it ends when the key is refused.
    pub async fn identify(
        &self,
        client: &Client,
        taken_for: TakenFor,
        listed: impl Future<Output = Result<Vec<String>, DiscoveryError>> + Send,
    ) -> Result<Identity, SiteError> {
        let has_user_id = self.user_id.is_some();
        let by_key = async move {
            let models = listed.await.map_err(|error| of_discovery(error, has_user_id))?;
            Ok(Identity::ApiKey { models })
        };
        if self.platform.profile().management.is_none() {
            return by_key.await;
        }
        let is_key = taken_for == TakenFor::Key;
        let deadline = Instant::now() + self.limits.timeout.saturating_sub(RESERVE / 2);
        let (key, session): (Identified<'_>, Identified<'_>) =
            (Box::pin(by_key), Box::pin(self.identify_session(client)));
        let (mut first, mut second) = if is_key { (key, session) } else { (session, key) };
        let mut other = None;
        let error = loop {
            tokio::select! {
                biased;
                result = &mut first => match result {
                    Ok(identity) => return Ok(identity),
                    Err(error) => break error,
                },
                result = &mut second, if other.is_none() => other = Some(result),
            }
        };
        if !is_key && error.wants_number() {
            return Err(error);
        }
        let other = match other {
            Some(other) => other,
            // A guess that is never answered must not cost the answer that the site has given.
            None => timeout_at(deadline, second).await.unwrap_or_else(|_elapsed| {
                Err(SiteError::new(SiteErrorKind::Timeout, "no complete answer in time"))
            }),
        };
        verdict(taken_for, error, other)
    }

    /// Identifies the session's text as a session.
    pub async fn identify_session(&self, client: &Client) -> Result<Identity, SiteError> {
        let management = self.management("a session")?;
        let began = Instant::now();
        let (mut user, balance) = self
            .bounded(async {
                match management {
                    Management::NewApi(_) => new_api::account(self, client).await,
                    Management::Sub2Api => sub2api::account(self, client).await,
                }
            })
            .await?;
        user.hide(&self.mask());
        // A key is an extra: without one, or with a list that takes too long, the session is proved all the same.
        let left = self.limits.timeout.saturating_sub(began.elapsed() + RESERVE);
        // One is enough, and the site may reveal only so many.
        let has_one = AtomicBool::new(false);
        let is_needless = |key: &SiteKey| !key.enabled || has_one.swap(true, Ordering::Relaxed);
        let keys = timeout(KEYS_WAIT.min(left), self.unknown_keys(client, &is_needless)).await;
        let keys = keys.ok().and_then(Result::ok).unwrap_or_default();
        Ok(Identity::Session { user, balance: balance.ok(), api_token: usable_key(keys) })
    }

    /// Returns the models of a session that is no key: those of its user, or a key to ask for them with.
    pub async fn models_of_session(&self, client: &Client) -> Result<SessionModels, SiteError> {
        match self.management("a session")? {
            Management::NewApi(fork) => {
                let names = self.bounded(new_api::models_of_session(self, client, fork)).await?;
                Ok(SessionModels::Listed(leave_out(names, &self.mask())))
            }
            Management::Sub2Api => {
                self.bounded(sub2api::first_key(self, client)).await.map(SessionModels::ByKey)
            }
        }
    }

    /// Whether this text is the client's session.
    pub fn is_session(&self, text: &str) -> bool {
        self.session().is_ok_and(|session| session == bare_credential(text))
    }

    /// Lists the API keys of the account, whole where the site shows them whole.
    pub async fn keys(&self, client: &Client) -> Result<Vec<SiteKey>, SiteError> {
        self.unknown_keys(client, &|_| false).await
    }

    /// Lists the API keys of the account like [`keys`](Self::keys); one that `knows` returns true for may stay masked.
    pub async fn unknown_keys(
        &self,
        client: &Client,
        knows: KnowsKey<'_>,
    ) -> Result<Vec<SiteKey>, SiteError> {
        let mut keys = match self.management("API keys of an account")? {
            Management::NewApi(fork) => self.bounded(new_api::keys::list(self, client, fork, knows)).await?,
            Management::Sub2Api => self.bounded(sub2api::keys::list(self, client)).await?,
        };
        let mask = self.mask();
        keys.iter_mut().for_each(|key| key.hide(&mask));
        Ok(keys)
    }

    /// Creates a key. Sites do not return it: list the keys to see it.
    pub async fn create_key(&self, client: &Client, key: &NewSiteKey) -> Result<(), SiteError> {
        match self.management("API keys of an account")? {
            Management::NewApi(_) => self.bounded(new_api::keys::create(self, client, key)).await,
            Management::Sub2Api => self.bounded(sub2api::keys::create(self, client, key)).await,
        }
    }

    /// Deletes a key; one that the site no longer has counts as deleted.
    pub async fn delete_key(&self, client: &Client, key: &str) -> Result<(), SiteError> {
        match self.management("API keys of an account")? {
            Management::NewApi(fork) => self.bounded(new_api::keys::delete(self, client, fork, key)).await,
            Management::Sub2Api => self.bounded(sub2api::keys::delete(self, client, key)).await,
        }
    }

    /// Lists the groups that the account may put its keys into; `default` where the site has no such list.
    ///
    /// # Errors
    /// When the session is not accepted, or the site cannot be reached.
    pub async fn groups(&self, client: &Client) -> Result<Vec<String>, SiteError> {
        if !self.platform.abilities().groups {
            return Ok(vec![DEFAULT_GROUP.to_owned()]);
        }
        let management = self.management("groups of keys")?;
        let groups = self.bounded(async {
            match management {
                Management::NewApi(fork) => new_api::groups(self, client, fork).await,
                Management::Sub2Api => sub2api::keys::groups(self, client).await,
            }
        });
        match groups.await {
            Ok(groups) if groups.is_empty() => Ok(vec![DEFAULT_GROUP.to_owned()]),
            Err(error)
                if matches!(
                    error.kind,
                    SiteErrorKind::Missing
                        | SiteErrorKind::Refused
                        | SiteErrorKind::Malformed
                        | SiteErrorKind::Failed
                ) =>
            {
                Ok(vec![DEFAULT_GROUP.to_owned()])
            }
            groups => {
                let (mut groups, mask) = (groups?, self.mask());
                groups.iter_mut().for_each(|group| mask.hide_in_name(group));
                Ok(groups)
            }
        }
    }

    /// Reads the announcements of the site. A site without such a page fails with [`SiteErrorKind::Missing`].
    pub async fn announcements(&self, client: &Client) -> Result<Vec<Announcement>, SiteError> {
        let mut announcements = match self.management("announcements")? {
            Management::NewApi(_) => self.bounded(new_api::notices::announcements(self, client)).await?,
            Management::Sub2Api => self.bounded(sub2api::announcements(self, client)).await?,
        };
        let mask = self.mask();
        for announcement in &mut announcements {
            mask.hide(&mut announcement.title);
            mask.hide(&mut announcement.content);
            let raw = announcement.raw_payload.to_string();
            if mask.is_in(raw.as_bytes()) {
                announcement.raw_payload = mask.hide_in(&raw).parse().unwrap_or_default();
            }
        }
        Ok(announcements)
    }

    /// Exchanges a refresh token. The caller runs one exchange at a time for an account, and stores the answer before
    /// it uses it.
    pub async fn refresh(&self, client: &Client, refresh_token: &Secret) -> Result<Refreshed, SiteError> {
        const WHAT: &str = "refresh of a session";
        match self.management(WHAT)? {
            Management::NewApi(_) => Err(self.lacks(WHAT)),
            Management::Sub2Api => self.bounded(sub2api::refresh(self, client, refresh_token)).await,
        }
    }

    /// Returns how the platform manages accounts; where it does not, fails with a message that names `what`.
    fn management(&self, what: &str) -> Result<&'static Management, SiteError> {
        self.platform.profile().management.as_ref().ok_or_else(|| self.lacks(what))
    }

    fn lacks(&self, what: &str) -> SiteError {
        SiteError::unsupported(&format!("{what} is not supported by {}", self.platform))
    }
}

/// Decides what a text is. `error` is the failure of what it is taken for; `other` is the result of the other way, which is a
/// guess.
fn verdict(
    taken_for: TakenFor,
    error: SiteError,
    other: Result<Identity, SiteError>,
) -> Result<Identity, SiteError> {
    // A page that the site does not have, or a web page, leaves it open whether the text is a key.
    let is_session = match taken_for {
        TakenFor::Key => false,
        TakenFor::Session => true,
        TakenFor::Either => !error.is_missing() && !error.is_page,
    };
    match other {
        Err(guess) if taken_for == TakenFor::Key && guess.wants_number() => Err(guess),
        // The text is taken for what it looks like.
        Err(_guess) if error.stands_for_itself() => Err(error),
        // A site that refuses the text as a key says nothing about a session.
        Err(guess) if is_session && guess.kind != SiteErrorKind::Shield => Err(error),
        other => other.map_err(|guess| SiteError::more_telling(Some(error), guess)),
    }
}

/// The group that every site of the family has.
const DEFAULT_GROUP: &str = "default";

/// Returns the first enabled key, else the first one; masked keys do not count.
fn usable_key(keys: Vec<SiteKey>) -> Option<Secret> {
    let whole = || keys.iter().filter(|key| !key.is_masked() && !key.key.expose().is_empty());
    whole().find(|key| key.enabled).or_else(|| whole().next()).map(|key| key.key.clone())
}

fn of_discovery(error: DiscoveryError, has_user_id: bool) -> SiteError {
    let meaning = sites::meaning(&error.message, error.status, has_user_id);
    let kind = match (meaning, error.kind, error.status) {
        (_, DiscoveryKind::Timeout, _) => SiteErrorKind::Timeout,
        _ if error.is_shield => SiteErrorKind::Shield,
        (Some(meaning), _, _) => meaning.into(),
        (_, DiscoveryKind::Unauthorized, _) => SiteErrorKind::Refused,
        (_, DiscoveryKind::EmptyModels, _) => SiteErrorKind::Refused,
        (_, DiscoveryKind::Unknown, None) => SiteErrorKind::Unreachable,
        (_, DiscoveryKind::Unknown, Some(404 | 405)) => SiteErrorKind::Missing,
        (_, DiscoveryKind::Unknown, Some(200..=299)) => SiteErrorKind::Malformed,
        (_, DiscoveryKind::Unknown, Some(429 | 500..)) => SiteErrorKind::Failed,
        (_, DiscoveryKind::Unknown, Some(_)) => SiteErrorKind::Refused,
    };
    SiteError { status: error.status, ..SiteError::new(kind, error.message) }
}

#[cfg(test)]
mod tests {
    use super::SiteErrorKind::{Expired, Malformed, Missing, NeedsUserId, Refused, Shield};
    use super::*;

    #[test]
    fn a_text_is_what_it_is_taken_for_unless_the_other_way_tells_more() {
        let failure = |kind, message: &str| SiteError::new(kind, message);
        let found = Identity::ApiKey { models: Vec::new() };
        for (taken_for, first, guess, expected) in [
            (TakenFor::Key, Refused, NeedsUserId, "guess"),
            (TakenFor::Key, Refused, Expired, "first"),
            (TakenFor::Key, Missing, Refused, "guess"),
            (TakenFor::Key, Malformed, Missing, "first"),
            (TakenFor::Session, Expired, Refused, "first"),
            (TakenFor::Session, Missing, Refused, "first"),
            (TakenFor::Session, Missing, Shield, "guess"),
            (TakenFor::Either, Malformed, Refused, "first"),
            (TakenFor::Either, Missing, Refused, "guess"),
        ] {
            let told = verdict(taken_for, failure(first, "first"), Err(failure(guess, "guess")));
            let told = told.map_err(|error| error.message);
            assert_eq!(told, Err(expected.to_owned()), "{taken_for:?} {first:?} {guess:?}");
            assert_eq!(verdict(taken_for, failure(first, "first"), Ok(found.clone())), Ok(found.clone()));
        }
        let page = SiteError { is_page: true, ..failure(Malformed, "first") };
        let told = verdict(TakenFor::Either, page, Err(failure(Refused, "guess")));
        assert_eq!(told.map_err(|error| error.message), Err("guess".to_owned()));
    }
}
