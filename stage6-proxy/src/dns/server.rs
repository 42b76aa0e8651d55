//! DNS by UDP and TCP: sockets, the zone's upkeep, and what isn't ours.
//!
//! *Step 6 of a pod's journey.* Before: a pod's resolver asked 10.96.0.10. After: it has an address.
//!
//! # Invariants
//! 1. The number of questions that wait for a forwarded answer is bounded; more are dropped, and clients ask again.
//! 2. An answer that doesn't fit into a UDP packet is cut and says so; the client comes back by TCP.
//!
//! # In Kubernetes
//! CoreDNS's server and its plugin `forward`.
#![expect(clippy::disallowed_methods, reason = "shell: sockets, resolv.conf")]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use parking_lot::RwLock;
use simple_dns::{Packet, PacketFlag, RCODE};
use stage1_kubectl::client::Client;
use stage3_controllers::indexer::Cached as _;
use stage3_controllers::informer::factory::InformerFactory;
use stage3_controllers::informer::{Event, Store};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use super::answer::{Answer, answer, reply};
use super::zone::Zone;
use crate::service_map::NamespacedName;

/// Questions in flight, by UDP and TCP together.
const MAX_IN_FLIGHT: usize = 1000;
/// A resolver of the host that doesn't answer within this is passed over.
const FORWARD_TIMEOUT: Duration = Duration::from_secs(2);
/// A client by TCP that says nothing.
const TCP_IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Without EDNS, a UDP answer may have so many bytes.
const UDP_PAYLOAD: u16 = 512;

struct Server {
    zone: RwLock<Zone>,
    upstreams: Vec<SocketAddr>,
    in_flight: Arc<Semaphore>,
}

/// Serves the cluster's names at that address until the shutdown; answers the bound address.
///
/// # Errors
/// The address is taken.
pub async fn serve(
    address: SocketAddr,
    domain: &str,
    client: Client,
    shutdown: CancellationToken,
) -> std::io::Result<SocketAddr> {
    let udp = Arc::new(UdpSocket::bind(address).await?);
    let bound = udp.local_addr()?;
    let tcp = TcpListener::bind(bound).await?;
    let upstreams = upstreams(&std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default(), bound);
    info!(address = %bound, domain, ?upstreams, "Serving cluster DNS");
    let server = Arc::new(Server {
        zone: RwLock::new(Zone::new(domain)),
        upstreams,
        in_flight: Arc::new(Semaphore::new(MAX_IN_FLIGHT)),
    });
    let factory = InformerFactory::new(client, shutdown.clone());
    let tasks = [
        tokio::spawn(Arc::clone(&server).follow(factory.store(), factory.store())),
        tokio::spawn(Arc::clone(&server).serve_udp(udp)),
        tokio::spawn(server.serve_tcp(tcp)),
    ];
    tokio::spawn(async move {
        shutdown.cancelled().await;
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
    });
    Ok(bound)
}

/// The `nameserver` lines of resolv.conf, without ourselves.
fn upstreams(resolv_conf: &str, own: SocketAddr) -> Vec<SocketAddr> {
    resolv_conf
        .lines()
        .filter_map(|line| line.trim().strip_prefix("nameserver")?.trim().parse().ok())
        .map(|ip| SocketAddr::new(ip, 53))
        .filter(|address| *address != own)
        .collect()
}

impl Server {
    /// Keeps the zone up to date.
    async fn follow(self: Arc<Self>, services: Store<Service>, slices: Store<EndpointSlice>) {
        let (mut service_events, mut slice_events) = (services.subscribe(), slices.subscribe());
        let key = |service: &Service| NamespacedName {
            namespace: service.object_namespace().to_owned(),
            name: service.object_name().to_owned(),
        };
        loop {
            let resync = tokio::select! {
                Some(event) = service_events.next() => match event {
                    Event::Added(service) | Event::Modified { new: service, .. } => {
                        self.zone.write().service(&service);
                        false
                    }
                    Event::Deleted(service) => {
                        self.zone.write().service_deleted(&key(&service));
                        false
                    }
                    Event::Resync => true,
                },
                Some(event) = slice_events.next() => match event {
                    Event::Added(slice) | Event::Modified { new: slice, .. } => {
                        self.zone.write().slice(&slice, false);
                        false
                    }
                    Event::Deleted(slice) => {
                        self.zone.write().slice(&slice, true);
                        false
                    }
                    Event::Resync => true,
                },
                else => return,
            };
            if resync {
                let (services, slices) = (services.list(), slices.list());
                let mut zone = self.zone.write();
                zone.clear();
                services.iter().for_each(|service| zone.service(service));
                slices.iter().for_each(|slice| zone.slice(slice, false));
            }
        }
    }

    async fn serve_udp(self: Arc<Self>, socket: Arc<UdpSocket>) {
        let mut buffer = vec![0; 4096];
        loop {
            let Ok((length, client)) = socket.recv_from(&mut buffer).await else { continue };
            let Ok(permit) = Arc::clone(&self.in_flight).try_acquire_owned() else { continue };
            let (server, socket, request) =
                (Arc::clone(&self), Arc::clone(&socket), buffer[..length].to_vec());
            tokio::spawn(async move {
                if let Some(reply) = server.reply(&request, false).await {
                    let _ = socket.send_to(&reply, client).await;
                }
                drop(permit);
            });
        }
    }

    async fn serve_tcp(self: Arc<Self>, listener: TcpListener) {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let Ok(permit) = Arc::clone(&self.in_flight).try_acquire_owned() else { continue };
            let server = Arc::clone(&self);
            tokio::spawn(async move {
                if let Err(error) = server.connection(stream).await {
                    debug!(%error, "DNS connection ended");
                }
                drop(permit);
            });
        }
    }

    async fn connection(&self, mut stream: TcpStream) -> std::io::Result<()> {
        loop {
            let length = tokio::time::timeout(TCP_IDLE_TIMEOUT, stream.read_u16()).await??;
            let mut request = vec![0; usize::from(length)];
            tokio::time::timeout(TCP_IDLE_TIMEOUT, stream.read_exact(&mut request)).await??;
            let Some(reply) = self.reply(&request, true).await else { return Ok(()) };
            let Ok(length) = u16::try_from(reply.len()) else { return Ok(()) };
            stream.write_all(&[&length.to_be_bytes(), reply.as_slice()].concat()).await?;
        }
    }

    /// The bytes to send back; `None`: nothing that could be understood came in.
    async fn reply(&self, bytes: &[u8], tcp: bool) -> Option<Vec<u8>> {
        let Ok(request) = Packet::parse(bytes) else { return self.forward(bytes, tcp).await };
        // An answer to an answer would be one again, for ever.
        if request.has_flags(PacketFlag::RESPONSE) {
            return None;
        }
        let decided = answer(&request, &self.zone.read());
        let message = match decided {
            Answer::Reply(message) => *message,
            Answer::Forward => match self.forward(bytes, tcp).await {
                Some(bytes) => return Some(bytes),
                None => reply(&request, RCODE::ServerFailure),
            },
        };
        let encoded = message.build_bytes_vec_compressed().ok()?;
        let room = request.opt().map_or(UDP_PAYLOAD, |opt| opt.udp_packet_size.max(UDP_PAYLOAD));
        if tcp || encoded.len() <= usize::from(room) {
            return Some(encoded);
        }
        let mut cut = reply(&request, message.rcode());
        cut.set_flags(PacketFlag::TRUNCATION);
        cut.build_bytes_vec().ok()
    }

    /// Asks the host's resolvers, one after the other.
    async fn forward(&self, request: &[u8], tcp: bool) -> Option<Vec<u8>> {
        for upstream in &self.upstreams {
            let asked = async {
                if tcp { ask_by_tcp(*upstream, request).await } else { ask_by_udp(*upstream, request).await }
            };
            match tokio::time::timeout(FORWARD_TIMEOUT, asked).await {
                Ok(Ok(reply)) => return Some(reply),
                Ok(Err(error)) => debug!(%upstream, %error, "Resolver failed"),
                Err(_) => debug!(%upstream, "Resolver did not answer"),
            }
        }
        None
    }
}

async fn ask_by_udp(upstream: SocketAddr, request: &[u8]) -> std::io::Result<Vec<u8>> {
    let any = if upstream.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        std::net::Ipv6Addr::UNSPECIFIED.into()
    };
    // A socket, and so a port, for each question: answers can't be guessed as easily.
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).await?;
    socket.connect(upstream).await?;
    socket.send(request).await?;
    let mut reply = vec![0; 4096];
    loop {
        let length = socket.recv(&mut reply).await?;
        // The first two bytes are the question's number.
        if reply.get(..2) == request.get(..2) {
            reply.truncate(length);
            return Ok(reply);
        }
    }
}

async fn ask_by_tcp(upstream: SocketAddr, request: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(upstream).await?;
    let length = u16::try_from(request.len()).map_err(std::io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes(), request].concat()).await?;
    let length = stream.read_u16().await?;
    let mut reply = vec![0; usize::from(length)];
    stream.read_exact(&mut reply).await?;
    Ok(reply)
}
