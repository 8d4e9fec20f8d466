//! Addresses to listen on, in the notation of Go programs.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use tokio::net::TcpListener;

/// An address to listen on: `:8081`, `127.0.0.1:9000`, `[::1]:9000`, or none (`0` and the empty text).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindAddress {
    /// Do not listen.
    Disabled,
    /// Every address of the machine, with this port.
    Everywhere(u16),
    /// One address or host name.
    At {
        /// Address or name, without brackets.
        host: String,
        /// Port; 0 lets the system choose.
        port: u16,
    },
}

/// The text is not an address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an address to listen on; write \":8081\", \"127.0.0.1:8081\", or \"0\" to switch it off")]
pub struct AddressError(pub String);

impl FromStr for BindAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let text = text.trim();
        if text.is_empty() || text == "0" {
            return Ok(Self::Disabled);
        }
        let wrong = || AddressError(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        let host = match host.strip_prefix('[') {
            Some(inner) => inner.strip_suffix(']').ok_or_else(wrong)?,
            // An IPv6 address without brackets: its last part cannot be distinguished from a port.
            None if host.contains(':') => return Err(wrong()),
            None => host,
        };
        Ok(if host.is_empty() { Self::Everywhere(port) } else { Self::At { host: host.to_owned(), port } })
    }
}

impl fmt::Display for BindAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled => formatter.write_str("0"),
            Self::Everywhere(port) => write!(formatter, ":{port}"),
            Self::At { host, port } if host.contains(':') => write!(formatter, "[{host}]:{port}"),
            Self::At { host, port } => write!(formatter, "{host}:{port}"),
        }
    }
}

impl BindAddress {
    /// Whether only one of the two addresses can be listened on. Host names are compared as texts.
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Disabled, _) | (_, Self::Disabled) => false,
            (Self::At { host, port }, Self::At { host: other_host, port: other_port }) => {
                port == other_port && *port != 0 && host == other_host
            }
            (
                Self::Everywhere(port) | Self::At { port, .. },
                Self::Everywhere(other) | Self::At { port: other, .. },
            ) => port == other && *port != 0,
        }
    }

    /// Opens the socket; `None` if listening is disabled.
    pub async fn listen(&self) -> io::Result<Option<TcpListener>> {
        match self {
            Self::Disabled => Ok(None),
            // The IPv6 wildcard accepts IPv4 connections too. Machines without IPv6 refuse it.
            Self::Everywhere(port) => match TcpListener::bind((Ipv6Addr::UNSPECIFIED, *port)).await {
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                    TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port)).await.map(Some)
                }
                other => other.map(Some),
            },
            Self::At { host, port } => TcpListener::bind((host.as_str(), *port)).await.map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn reads_what_go_programs_write_and_shows_it_again() {
        let at = |host: &str, port| BindAddress::At { host: host.into(), port };
        for (text, expected) in [
            ("0", BindAddress::Disabled),
            (":8081", BindAddress::Everywhere(8081)),
            ("127.0.0.1:9000", at("127.0.0.1", 9000)),
            ("localhost:0", at("localhost", 0)),
            ("[::1]:9000", at("::1", 9000)),
        ] {
            assert_eq!(text.parse(), Ok(expected.clone()), "{text}");
            assert_eq!(expected.to_string(), text);
        }
        assert_eq!("".parse(), Ok(BindAddress::Disabled));
        assert_eq!("[]:1".parse(), Ok(BindAddress::Everywhere(1)));
    }

    #[test]
    fn refuses_everything_else_and_says_what_would_do() {
        for text in ["8081", "host", ":http", ":99999", "::1:80", "[::1:80", "a:b:80"] {
            let error = text.parse::<BindAddress>().unwrap_err();
            assert_eq!(error, AddressError(text.into()));
            assert!(error.to_string().contains("\":8081\""), "{error}");
        }
    }

    #[tokio::test]
    async fn everywhere_is_reached_over_ipv4() {
        let listener = BindAddress::Everywhere(0).listen().await.unwrap().unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
    }
}
