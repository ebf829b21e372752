//! Which requests for a password are answered, and when is a server believed that lets the session in?

use bytes::BytesMut;
use pgwire::auth::{self, Binding, Mechanisms, Request, Scram};
use pgwire::frontend;

use crate::error::Error;
use crate::session::exchange::Exchange;
use crate::session::target::Target;
use crate::session::trust::{AuthMethod, ChannelBinding};
use crate::tls::certificate::end_point;

/// The authentication of one session.
pub(crate) struct Login<'a> {
    target: &'a Target,
    /// Whether nobody can listen.
    is_private: bool,
    /// What SCRAM can be bound to.
    end_point: Option<Vec<u8>>,
    method: AuthMethod,
    scram: Option<Scram>,
}

impl<'a> Login<'a> {
    pub(crate) fn new(exchange: &Exchange, target: &'a Target) -> Self {
        let link = exchange.link();
        let is_wanted = target.trust.channel_binding != ChannelBinding::Disable;
        Self {
            target,
            is_private: link.is_private(),
            end_point: link.server_certificate().filter(|_| is_wanted).and_then(end_point),
            method: AuthMethod::None,
            scram: None,
        }
    }

    /// Answers a request, other than the one that ends them.
    pub(crate) fn answer(
        &mut self,
        request: &Request<'_>,
        out: &mut BytesMut,
    ) -> Result<(), Error> {
        let method = match request {
            Request::Done => return self.admit(),
            Request::ClearText => AuthMethod::Password,
            Request::Md5(_) => AuthMethod::Md5,
            Request::Sasl(_) => AuthMethod::Scram,
            Request::SaslContinue(answer) => {
                let scram = self.started()?;
                scram.go_on(answer)?;
                return Ok(frontend::sasl_next(out, scram.answer())?);
            }
            Request::SaslFinal(answer) => return Ok(self.started()?.finish(answer)?),
        };
        self.choose(method)?;
        match request {
            Request::Md5(salt) => {
                let answer = auth::md5(&self.target.user, self.password()?, *salt);
                frontend::password(out, answer.as_bytes())?;
            }
            Request::Sasl(offered) => {
                let scram = Scram::new(self.password()?, self.binding(*offered)?);
                frontend::sasl_first(out, scram.mechanism(), scram.answer())?;
                self.scram = Some(scram);
            }
            _ => frontend::password(out, self.password()?.as_bytes())?,
        }
        Ok(())
    }

    /// Whether the server has done what it must have before it says that the session may begin.
    pub(crate) fn admit(&self) -> Result<(), Error> {
        // A server that does not know the password can let anybody in.
        if self.scram.as_ref().is_some_and(|scram| !scram.is_proven()) {
            return Err(refused("server did not prove that it knows the password"));
        }
        let is_bound = self.scram.as_ref().is_some_and(Scram::is_bound);
        if self.target.trust.channel_binding == ChannelBinding::Require && !is_bound {
            return Err(refused(
                "server let the session in without channel binding, which is required",
            ));
        }
        if self.method == AuthMethod::None {
            return self.allow(AuthMethod::None);
        }
        Ok(())
    }

    /// Takes the server's method, once and no other after it.
    fn choose(&mut self, method: AuthMethod) -> Result<(), Error> {
        if self.method != AuthMethod::None {
            return Err(Error::Protocol("server asks for a second kind of authentication".into()));
        }
        self.allow(method)?;
        if self.target.trust.channel_binding == ChannelBinding::Require
            && method != AuthMethod::Scram
        {
            let message = format!(
                "server asks for {}, without channel binding, which is required",
                words(method)
            );
            return Err(Error::Refused(message));
        }
        self.method = method;
        Ok(())
    }

    fn allow(&self, method: AuthMethod) -> Result<(), Error> {
        if let Some(allowed) = &self.target.trust.methods {
            if allowed.contains(&method) {
                return Ok(());
            }
            let names: Vec<_> = allowed.iter().map(|one| one.name()).collect();
            let message = format!(
                "server asks for {}, and require_auth allows only {}",
                words(method),
                names.join(", ")
            );
            return Err(Error::Refused(message));
        }
        let tells_listeners = matches!(method, AuthMethod::Password | AuthMethod::Md5);
        if tells_listeners && !self.is_private {
            let message = format!(
                "server on another host asks for {} over a connection without TLS: connect with \
                 sslmode=require, or let the server ask for scram-sha-256",
                words(method)
            );
            return Err(Error::Refused(message));
        }
        Ok(())
    }

    fn binding(&mut self, offered: Mechanisms) -> Result<Binding, Error> {
        match self.end_point.take() {
            Some(hash) if offered.scram_plus => Ok(Binding::EndPoint(hash)),
            _ if self.target.trust.channel_binding == ChannelBinding::Require => {
                Err(refused("there is no channel binding with this server, and it is required"))
            }
            _ if !offered.scram => Err(Error::Protocol("server offers no SCRAM-SHA-256".into())),
            Some(_) => Ok(Binding::NotOffered),
            None => Ok(Binding::Unsupported),
        }
    }

    fn started(&mut self) -> Result<&mut Scram, Error> {
        self.scram.as_mut().ok_or_else(|| Error::Protocol("SASL answer before its request".into()))
    }

    fn password(&self) -> Result<&'a str, Error> {
        self.target.password.as_deref().ok_or_else(|| {
            Error::Protocol(format!("server asks for a password of role \"{}\"", self.target.user))
        })
    }
}

fn words(method: AuthMethod) -> &'static str {
    match method {
        AuthMethod::None => "no authentication",
        AuthMethod::Password => "the password in clear text",
        AuthMethod::Md5 => "the password's MD5 hash",
        AuthMethod::Scram => "SCRAM-SHA-256",
    }
}

fn refused(message: &str) -> Error {
    Error::Refused(message.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::trust::Trust;

    const PASSWORD: Option<&str> = Some("correct horse");
    const BOTH: Mechanisms = Mechanisms { scram: true, scram_plus: true };
    const UNBOUND: Mechanisms = Mechanisms { scram: true, scram_plus: false };

    fn target(channel_binding: ChannelBinding, methods: Option<&[AuthMethod]>) -> Target {
        let trust = Trust { channel_binding, methods: methods.map(<[_]>::to_vec) };
        let target = Target::new("db1", 5432, "me", "db", PASSWORD, "test");
        target.secured(trust, None, None).expect("no certificates to read")
    }

    fn login(target: &Target, is_private: bool, end_point: Option<Vec<u8>>) -> Login<'_> {
        Login { target, is_private, end_point, method: AuthMethod::None, scram: None }
    }

    /// What the client says, or why it does not.
    fn answer(login: &mut Login<'_>, request: &Request<'_>) -> Result<Vec<u8>, String> {
        let mut out = BytesMut::new();
        login.answer(request, &mut out).map(|()| out.to_vec()).map_err(|error| error.to_string())
    }

    fn holds(bytes: &[u8], part: &[u8]) -> bool {
        bytes.windows(part.len()).any(|window| window == part)
    }

    #[test]
    fn a_password_and_its_hash_go_only_where_nobody_listens() {
        let any = target(ChannelBinding::Prefer, None);
        for request in [Request::ClearText, Request::Md5([1, 2, 3, 4])] {
            let refused = answer(&mut login(&any, false, None), &request).expect_err("heard");
            assert!(refused.contains("without TLS") && refused.contains("sslmode=require"));
            assert!(!refused.contains("correct horse"));
            answer(&mut login(&any, true, None), &request).expect("nobody listens");
        }
        answer(&mut login(&any, false, None), &Request::Sasl(UNBOUND))
            .expect("SCRAM tells nothing");
        // Who names a method wants it, as with libpq's require_auth.
        let named = target(ChannelBinding::Prefer, Some(&[AuthMethod::Md5]));
        answer(&mut login(&named, false, None), &Request::Md5([0; 4])).expect("wanted");
    }

    #[test]
    fn only_methods_that_are_allowed_are_answered() {
        let scram = target(ChannelBinding::Prefer, Some(&[AuthMethod::Scram]));
        for request in [Request::ClearText, Request::Md5([0; 4])] {
            let refused =
                answer(&mut login(&scram, true, None), &request).expect_err("not allowed");
            assert!(refused.ends_with("and require_auth allows only scram-sha-256"), "{refused}");
        }
        let refused = login(&scram, true, None).admit().expect_err("no authentication");
        assert!(refused.to_string().starts_with("server asks for no authentication"));
        login(&target(ChannelBinding::Prefer, None), false, None).admit().expect("trusted");
    }

    #[test]
    fn a_server_that_does_not_prove_that_it_knows_the_password_is_refused() {
        let any = target(ChannelBinding::Prefer, None);
        let mut skipped = login(&any, true, None);
        let first = answer(&mut skipped, &Request::Sasl(UNBOUND)).expect("answered");
        let complaint = "server did not prove that it knows the password";
        assert_eq!(skipped.admit().expect_err("no proof").to_string(), complaint);

        let said = String::from_utf8_lossy(&first);
        let (_, nonce) = said.split_once("n=,r=").expect("a nonce");
        let challenge = format!("r={nonce}more,s=c2FsdA==,i=1").into_bytes();
        answer(&mut skipped, &Request::SaslContinue(&challenge)).expect("answered");
        assert_eq!(skipped.admit().expect_err("no proof").to_string(), complaint);
        let lie = answer(&mut skipped, &Request::SaslFinal(b"v=bm9uc2Vuc2U=")).expect_err("a lie");
        assert!(lie.starts_with("SCRAM failed"), "{lie}");
        assert_eq!(skipped.admit().expect_err("no proof").to_string(), complaint);
    }

    #[test]
    fn a_server_cannot_change_to_a_weaker_method() {
        let any = target(ChannelBinding::Prefer, None);
        let mut begun = login(&any, true, None);
        answer(&mut begun, &Request::Sasl(UNBOUND)).expect("answered");
        for request in [Request::ClearText, Request::Md5([0; 4]), Request::Sasl(UNBOUND)] {
            let refused = answer(&mut begun, &request).expect_err("a second method");
            assert_eq!(refused, "server asks for a second kind of authentication");
        }
    }

    #[test]
    fn scram_is_bound_to_the_connection_as_wanted_and_offered() {
        use ChannelBinding::{Disable, Prefer, Require};
        let (bound, unbound) = (b"SCRAM-SHA-256-PLUS\0".as_slice(), b"SCRAM-SHA-256\0".as_slice());
        let cases = [
            (Prefer, true, BOTH, Ok((bound, b"p=tls-server-end-point,,".as_slice()))),
            (Require, true, BOTH, Ok((bound, b"p=tls-server-end-point,,"))),
            // A server that did offer it learns that its offer was removed.
            (Prefer, true, UNBOUND, Ok((unbound, b"y,,"))),
            (Prefer, false, BOTH, Ok((unbound, b"n,,"))),
            (Disable, false, BOTH, Ok((unbound, b"n,,"))),
            (Require, true, UNBOUND, Err("it is required")),
            (Require, false, BOTH, Err("it is required")),
        ];
        for (number, (wanted, is_possible, offered, expected)) in cases.into_iter().enumerate() {
            let wanted = target(wanted, None);
            let mut login = login(&wanted, true, is_possible.then(|| vec![7; 32]));
            match (answer(&mut login, &Request::Sasl(offered)), expected) {
                (Ok(said), Ok((mechanism, header))) => {
                    assert!(holds(&said, mechanism) && holds(&said, header), "case {number}");
                }
                (Err(refused), Err(why)) => {
                    assert!(refused.contains(why), "case {number}: {refused}");
                }
                (found, _) => panic!("case {number}: {found:?}"),
            }
        }
    }

    #[test]
    fn channel_binding_that_is_required_leaves_no_other_way_in() {
        let bound = target(ChannelBinding::Require, None);
        for request in [Request::ClearText, Request::Md5([0; 4])] {
            let refused = answer(&mut login(&bound, true, Some(vec![7; 32])), &request);
            assert!(refused.expect_err("unbound").contains("without channel binding"));
        }
        let trusted = login(&bound, true, Some(vec![7; 32])).admit();
        assert!(trusted.expect_err("unbound").to_string().contains("without channel binding"));
    }
}
