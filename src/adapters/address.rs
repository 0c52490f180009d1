//! Which addresses belong to the public internet, and a resolver that yields no others.
//!
//! *Invariant*: the addresses that were judged are the addresses that are connected to: the judge
//! is the client's own resolver, so that no second look-up can say otherwise. An address written in
//! a URL never gets here (the client connects to it as it stands); it is judged at set-up.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use futures::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Asks for the addresses of a name.
pub(super) type Lookup = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync>;

/// The machine's own resolver.
pub(super) fn system_lookup() -> Lookup {
    Arc::new(|name| {
        Box::pin(async move { Ok(tokio::net::lookup_host((name, 0)).await?.map(|found| found.ip()).collect()) })
    })
}

/// A name leads where it must not.
#[derive(Debug, thiserror::Error)]
#[error("the address is not public")]
pub(super) struct NotPublic;

/// A resolver for one target.
#[derive(Clone)]
pub(super) struct Guard {
    /// Whether the target may be anywhere.
    pub(super) anywhere: bool,
    /// Where answers come from.
    pub(super) lookup: Lookup,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("anywhere", &self.anywhere).finish_non_exhaustive()
    }
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let found = (self.lookup)(name.as_str().to_owned());
        let anywhere = self.anywhere;
        Box::pin(async move {
            let found = found.await?;
            // One bad address condemns the name: which of them is tried first is not ours to say.
            if !anywhere && !found.iter().copied().all(is_public) {
                return Err(NotPublic.into());
            }
            Ok(Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0))) as Addrs)
        })
    }
}

/// Whether an address may belong to anyone on the internet.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// All but the special-purpose blocks (IANA's registry).
fn is_public_v4(address: Ipv4Addr) -> bool {
    !matches!(
        address.octets(),
        // This network, private, loopback, link-local; multicast, reserved, broadcast.
        [0 | 10 | 127 | 224.., ..] | [169, 254, ..] | [172, 16..=31, ..] | [192, 168, ..]
        // Shared by carriers, protocol assignments, benchmarks, documentation, 6to4 relays.
        | [100, 64..=127, ..] | [192, 0, 0 | 2, _] | [192, 88, 99, _] | [198, 18 | 19, ..]
        | [198, 51, 100, _] | [203, 0, 113, _]
    )
}

/// Global unicast but for its special blocks, and NAT64 of a public IPv4 address.
///
/// Everything that carries an IPv4 address another way (mapped, compatible, 6to4, Teredo) is not.
fn is_public_v6(address: Ipv6Addr) -> bool {
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            is_public_v4(Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low)))
        }
        // 2001::/23 protocol assignments, 2001:db8::/32 and 3fff::/20 documentation, 2002::/16 6to4.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x2002, ..] | [0x3fff, 0..=0xfff, ..] => false,
        [first, ..] => (0x2000..=0x3fff).contains(&first),
    }
}
