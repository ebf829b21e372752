//! How does a session with the server begin?

use pgwire::auth::Request;
use pgwire::backend::{self, Reader, Tag};
use pgwire::frontend;

use crate::error::Error;
use crate::session::exchange::Exchange;
use crate::session::login::Login;
use crate::session::target::{CancelToken, Target};

/// Connects, authenticates, and waits until the server takes commands.
pub(crate) async fn open(target: &Target) -> Result<(Exchange, CancelToken), Error> {
    let mut exchange = Exchange::new(target.place.connect().await?);
    let mut parameters = vec![
        ("user", target.user.as_str()),
        ("database", &target.database),
        ("application_name", &target.application_name),
        ("client_encoding", "UTF8"),
    ];
    // Not an empty one: a pooler refuses what it does not know, whatever its value.
    parameters.extend(target.options.as_deref().map(|options| ("options", options)));
    frontend::startup(&mut exchange.out, &parameters)?;
    exchange.send().await?;
    authenticate(&mut exchange, target).await?;

    let mut cancel = CancelToken { place: target.place.clone(), process_id: 0, secret_key: 0 };
    loop {
        exchange.forget();
        let message = exchange.next().await?;
        let body = exchange.body(&message);
        match message.tag {
            Tag::BackendKeyData => {
                let mut reader = Reader::new(body);
                cancel.process_id = reader.int4()?;
                cancel.secret_key = reader.int4()?;
            }
            Tag::ErrorResponse => return Err(Error::from_report(backend::report(body)?)),
            Tag::ReadyForQuery => return Ok((exchange, cancel)),
            _ => {}
        }
    }
}

async fn authenticate(exchange: &mut Exchange, target: &Target) -> Result<(), Error> {
    let mut login = Login::new(exchange, target);
    loop {
        exchange.forget();
        let message = exchange.next().await?;
        let body = exchange.body(&message).to_vec();
        match message.tag {
            Tag::Authentication => {}
            Tag::ErrorResponse => return Err(Error::from_report(backend::report(&body)?)),
            Tag::NoticeResponse | Tag::NegotiateProtocolVersion => continue,
            tag => return Err(Error::Protocol(format!("{tag:?} during authentication"))),
        }
        let request = Request::parse(&body)?;
        if request == Request::Done {
            return login.admit();
        }
        login.answer(&request, &mut exchange.out)?;
        exchange.send().await?;
    }
}
