//! A server that speaks TLS and says what a test tells it to, and certificates that are made for it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;

use pgdrag_driver::tls::{Roots, TlsTerms, Verify};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType,
    date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

/// Who signs certificates.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key.
pub struct Certified {
    pub certificate: String,
    pub key: String,
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key")
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, key()).expect("a root certificate"))
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Signs a certificate that `change` has described.
    pub fn sign(&self, change: impl FnOnce(&mut CertificateParams)) -> Certified {
        let mut params = CertificateParams::default();
        change(&mut params);
        let key = key();
        let certificate = params.signed_by(&key, &self.0).expect("a certificate").pem();
        Certified { certificate, key: key.serialize_pem() }
    }

    /// A certificate of `localhost`.
    pub fn localhost(&self) -> Certified {
        self.sign(|params| name(params, "localhost"))
    }
}

/// A certificate that signs itself, as `openssl req -x509` makes it.
pub fn self_signed() -> Certified {
    let mut params = CertificateParams::default();
    name(&mut params, "localhost");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = key();
    let certificate = params.self_signed(&key).expect("a certificate").pem();
    Certified { certificate, key: key.serialize_pem() }
}

pub fn name(params: &mut CertificateParams, host: &str) {
    params.subject_alt_names.push(SanType::DnsName(host.try_into().expect("ASCII")));
}

pub fn expire(params: &mut CertificateParams) {
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2021, 1, 1);
}

/// What a client asks of a server's certificate.
pub fn asking(verify: Verify, roots: Option<&Authority>) -> TlsTerms {
    TlsTerms {
        verify,
        roots: roots.map(|roots| Roots::Pem(roots.pem())),
        certificate: None,
        key: None,
        is_direct: false,
        names_host: true,
    }
}

/// What a server does with a request for TLS.
pub enum Offer {
    /// It grants it.
    Tls(Arc<ServerConfig>),
    /// It waits for none.
    Direct(Arc<ServerConfig>),
    /// It says this.
    Answer(&'static [u8]),
}

/// How a server with this certificate speaks TLS, and whose clients it lets in.
pub fn speaking(with: &Certified, clients: Option<&Authority>) -> Arc<ServerConfig> {
    use rustls::pki_types::pem::PemObject;

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("ciphers");
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            let root = CertificateDer::from_pem_slice(authority.pem().as_bytes());
            roots.add(root.expect("PEM")).expect("a root");
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().expect("a verifier"))
        }
    };
    let chain = CertificateDer::from_pem_slice(with.certificate.as_bytes()).expect("PEM");
    let key = PrivateKeyDer::from_pem_slice(with.key.as_bytes()).expect("PEM");
    let mut config = builder.with_single_cert(vec![chain], key).expect("a pair");
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    Arc::new(config)
}

/// A server that answers one client, each of its messages by the next of a list.
pub struct Scripted {
    pub port: u16,
    thread: JoinHandle<Vec<Vec<u8>>>,
}

impl Scripted {
    pub fn start(offer: Offer, answers: Vec<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("an address").port();
        let thread = std::thread::spawn(move || {
            let (stream, _) = listener.accept().expect("a client");
            converse(stream, offer, answers)
        });
        Self { port, thread }
    }

    /// What it was told, message by message; empty where there was no agreement on TLS.
    pub fn heard(self) -> Vec<Vec<u8>> {
        self.thread.join().expect("the server ends")
    }
}

fn converse(mut stream: TcpStream, offer: Offer, answers: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let config = match offer {
        Offer::Direct(config) => config,
        Offer::Tls(config) => {
            let mut request = [0; 8];
            stream.read_exact(&mut request).expect("a request for TLS");
            assert_eq!(request, [0, 0, 0, 8, 4, 210, 22, 47]);
            stream.write_all(b"S").expect("a client");
            config
        }
        Offer::Answer(bytes) => {
            stream.read_exact(&mut [0; 8]).expect("a request for TLS");
            stream.write_all(bytes).expect("a client");
            // It waits for the client to leave, or for more than it should have said.
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest);
            return if rest.is_empty() { Vec::new() } else { vec![rest] };
        }
    };
    let session = ServerConnection::new(config).expect("a session");
    let mut encrypted = StreamOwned::new(session, stream);
    let mut heard = Vec::new();
    let mut question = vec![0; 1 << 16];
    for answer in answers {
        // A client that does not trust the server leaves.
        let Ok(count @ 1..) = encrypted.read(&mut question) else { return heard };
        heard.push(question[..count].to_vec());
        if encrypted.write_all(&answer).and_then(|()| encrypted.flush()).is_err() {
            return heard;
        }
    }
    heard
}
