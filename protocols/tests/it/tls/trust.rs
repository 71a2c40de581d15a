//! Whom one trusts: certificates of servers and clients, good ones and others, and the texts that keys and certificates come in.

use super::{
    Authority, EACH_VERSION, Provider, Setup,
    authority::LOCAL_NAMES,
    fault, on_every_provider,
    pair::{Cut, Pair},
};
use shardloop_protocols::{
    length::Length,
    tls::{
        Alert, CertificateFault, ClientCertificates, ClientConfig, ClientOptions, ConfigError,
        Identity, Roots, ServerConfig, ServerOptions, Tls, TlsFault, WallClock,
    },
};
use std::time::Duration;

on_every_provider! {
    an_unknown_authority_is_refused,
    an_expired_certificate_is_refused,
    the_wall_clock_is_the_callers,
    a_certificate_for_another_name_is_refused,
    clients_that_must_show_themselves,
    clients_that_may_show_themselves,
    a_clients_certificate_is_no_servers,
    options_that_do_not_fit_say_so,
}

type Ends = Pair<Tls<Length>>;

fn certificate_fault(pair: &Ends) -> &CertificateFault {
    match fault(&pair.client) {
        TlsFault::Certificate(fault) => fault,
        other => panic!("{other:?}"),
    }
}

/// What the server was told about why.
fn alert(pair: &Ends) -> Option<&'static str> {
    match fault(&pair.server) {
        TlsFault::Alert(alert) => alert.name(),
        other => panic!("{other:?}"),
    }
}

fn an_unknown_authority_is_refused(provider: &Provider) {
    for versions in EACH_VERSION {
        let mut setup = Setup::new(provider).with_versions(versions);
        setup.client.roots = Authority::new("another authority").roots();
        let pair = setup.connected(Cut::Whole);
        assert_eq!(
            certificate_fault(&pair),
            &CertificateFault::UnknownAuthority
        );
        assert_eq!(alert(&pair), Some("unknown_ca"));
    }
}

fn an_expired_certificate_is_refused(provider: &Provider) {
    for versions in EACH_VERSION {
        let authority = Authority::new("test authority");
        let mut setup = Setup::by(&authority, provider).with_versions(versions);
        setup.server.identity = authority.expired_server();
        let pair = setup.connected(Cut::Whole);
        assert!(matches!(
            certificate_fault(&pair),
            CertificateFault::Expired { .. }
        ));
        assert_eq!(alert(&pair), Some("certificate_expired"));
    }
}

fn the_wall_clock_is_the_callers(provider: &Provider) {
    let authority = Authority::new("test authority");
    let mut setup = Setup::by(&authority, provider);
    setup.server.identity = authority.expired_server();
    // In the year 2000 it was valid, and ten years before not yet.
    let year = Duration::from_secs(365 * 24 * 3600);
    setup.client.wall_clock = Some(WallClock::new(move || Some(year * 30 + year / 2)));
    assert!(
        setup
            .connected(Cut::Whole)
            .client
            .machine
            .peer_certificates()
            .count()
            > 0
    );
    assert!(setup.connected(Cut::Whole).client.end.is_none());
    setup.client.wall_clock = Some(WallClock::new(move || Some(year * 20)));
    let pair = setup.connected(Cut::Whole);
    assert!(matches!(
        certificate_fault(&pair),
        CertificateFault::NotYetValid { .. }
    ));
    setup.client.wall_clock = Some(WallClock::new(|| None));
    let pair = setup.connected(Cut::Whole);
    assert_eq!(fault(&pair.client), &TlsFault::NoTime);
}

fn a_certificate_for_another_name_is_refused(provider: &Provider) {
    let authority = Authority::new("test authority");
    let mut setup = Setup::by(&authority, provider);
    let names = ["example.org", "192.0.2.1"];
    setup.server.identity = authority.server_named(&names).identity();
    for name in LOCAL_NAMES {
        setup.client.server_name = name.to_owned();
        let pair = setup.connected(Cut::Whole);
        let expected = CertificateFault::WrongName {
            wanted: name.into(),
            found: "example.org, 192.0.2.1".into(),
        };
        assert_eq!(certificate_fault(&pair), &expected);
        assert_eq!(alert(&pair), Some("bad_certificate"));
    }
    for name in names {
        setup.client.server_name = name.to_owned();
        assert_eq!(setup.connected(Cut::Whole).client.end, None, "{name}");
    }
}

fn clients_that_must_show_themselves(provider: &Provider) {
    let (authority, other) = (
        Authority::new("clients' authority"),
        Authority::new("other"),
    );
    for versions in EACH_VERSION {
        let mut setup = Setup::new(provider).with_versions(versions);
        setup.server.client_certificates = ClientCertificates::Required(authority.roots());
        let pair = setup.connected(Cut::Bytes);
        let expected = TlsFault::Certificate(CertificateFault::Missing);
        assert_eq!(fault(&pair.server), &expected);
        assert_eq!(fault(&pair.client), &TlsFault::Alert(Alert { code: 116 }));

        setup.client.identity = Some(other.client("mallory"));
        let pair = setup.connected(Cut::Whole);
        let expected = TlsFault::Certificate(CertificateFault::UnknownAuthority);
        assert_eq!(fault(&pair.server), &expected);
        assert_eq!(fault(&pair.client), &TlsFault::Alert(Alert { code: 48 }));

        setup.client.identity = Some(authority.client("alice"));
        let configs = setup.configs();
        for is_resumed in [false, true] {
            let mut pair = configs.connected(Length::default, Cut::Whole);
            pair.ask(b"x");
            assert_eq!(pair.server.machine.is_resumed(), is_resumed);
            assert_eq!(pair.server.machine.peer_certificates().count(), 1);
        }
    }
}

fn clients_that_may_show_themselves(provider: &Provider) {
    let (authority, other) = (
        Authority::new("clients' authority"),
        Authority::new("other"),
    );
    let mut setup = Setup::new(provider);
    setup.server.client_certificates = ClientCertificates::Optional(authority.roots());
    for (identity, shown) in [(None, 0), (Some(authority.client("alice")), 1)] {
        setup.client.identity = identity;
        let mut pair = setup.connected(Cut::Whole);
        pair.ask(b"x");
        assert_eq!(pair.server.machine.peer_certificates().count(), shown);
    }
    setup.client.identity = Some(other.client("mallory"));
    let pair = setup.connected(Cut::Whole);
    let expected = TlsFault::Certificate(CertificateFault::UnknownAuthority);
    assert_eq!(fault(&pair.server), &expected);
}

fn a_clients_certificate_is_no_servers(provider: &Provider) {
    let authority = Authority::new("test authority");
    let mut setup = Setup::by(&authority, provider);
    setup.server.identity = authority.client("localhost");
    let pair = setup.connected(Cut::Whole);
    assert_eq!(certificate_fault(&pair), &CertificateFault::WrongPurpose);
}

fn options_that_do_not_fit_say_so(provider: &Provider) {
    let authority = Authority::new("test authority");
    let [one, other] = [(); 2].map(|()| authority.server_named(&["localhost"]));
    let (chain, key) = (one.chain.as_bytes(), one.key.as_bytes());
    let identity = |chain: &[u8], key: &[u8]| {
        let identity = Identity::from_pem(chain, key)?;
        ServerConfig::new(&ServerOptions::usual(identity, provider.clone())).map(|_| ())
    };
    assert_eq!(identity(chain, key), Ok(()));
    let both = [chain, key].concat();
    assert_eq!(identity(&both, &both), Ok(()));
    assert_eq!(identity(b"", key), Err(ConfigError::NoCertificate));
    assert_eq!(identity(key, key), Err(ConfigError::NoCertificate));
    assert_eq!(identity(chain, chain), Err(ConfigError::NoKey));
    assert_eq!(
        identity(chain, other.key.as_bytes()),
        Err(ConfigError::KeyMismatch)
    );
    let encrypted = one.key.replace("PRIVATE", "ENCRYPTED PRIVATE");
    assert_eq!(
        identity(chain, encrypted.as_bytes()),
        Err(ConfigError::EncryptedKey)
    );
    assert!(matches!(
        identity(&chain[..200], key),
        Err(ConfigError::Pem(_))
    ));
    let shorter = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    assert_eq!(
        identity(chain, shorter.as_bytes()),
        Err(ConfigError::UnsupportedKey)
    );
    let nothing = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert_eq!(
        identity(nothing.as_bytes(), key),
        Err(ConfigError::BadCertificate)
    );
    assert!(matches!(
        Roots::from_pem(nothing.as_bytes()),
        Err(ConfigError::BadCertificate)
    ));
    assert!(matches!(
        Roots::from_der(vec![]),
        Err(ConfigError::NoCertificate)
    ));
    assert!(matches!(
        Identity::from_der(vec![], vec![]),
        Err(ConfigError::NoCertificate)
    ));

    let options = ClientOptions::usual(authority.roots(), "not a name", provider.clone());
    let expected = ConfigError::ServerName("not a name".into());
    assert_eq!(ClientConfig::new(&options).err(), Some(expected));
    let options = ClientOptions {
        protocols: vec![vec![b'x'; 256]],
        ..ClientOptions::usual(authority.roots(), "localhost", provider.clone())
    };
    let expected = ConfigError::ProtocolName { bytes: 256 };
    assert_eq!(ClientConfig::new(&options).err(), Some(expected));
}
