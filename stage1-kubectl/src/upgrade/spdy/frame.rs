//! SPDY frames as bytes: pure.
//!
//! Eight bytes of header: a bit that tells control from data, then version and type (or the stream's number), flags, length.
//!
//! Header blocks are zlib-compressed with a dictionary that both sides know. A zlib stream may say which dictionary it was
//! made with and then consist of stored blocks that use none of it: `0x78 0xBB`, the dictionary's Adler-32, then
//! `00 len !len data` for each block. Any inflater reads that. An empty block ends each header block, as a flush does.
//!
//! # Invariants
//! 1. The two zlib header bytes stand only before the first block of a connection.
//!
//! # In Kubernetes
//! `github.com/moby/spdystream/spdy/{types,read,write}.go`.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Length of a frame's header.
pub const HEADER_BYTES: usize = 8;
/// Length of the longest data that goes into one frame.
pub const MAX_DATA_BYTES: usize = 16 * 1024;

const FLAG_FIN: u8 = 1;
/// Adler-32 of the SPDY/3 dictionary.
const DICTIONARY_ID: u32 = 0xE3C6_A7C2;

/// A frame from the other side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// Bytes of a stream.
    Data {
        /// The stream.
        id: u32,
        /// The bytes.
        data: Bytes,
        /// Nothing follows.
        fin: bool,
    },
    /// Anything else.
    Control(Control),
}

/// Control frames that a client must understand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Control {
    /// Our stream was accepted.
    SynReply {
        /// The stream.
        id: u32,
        /// The other side won't write.
        fin: bool,
    },
    /// A stream was refused or broken off.
    RstStream {
        /// The stream.
        id: u32,
        /// Why (1: protocol error, 5: cancel, 9: already closed, …).
        status: u32,
    },
    /// Are you there?
    Ping {
        /// The number to answer with.
        id: u32,
    },
    /// No new streams.
    GoAway,
    /// `SETTINGS`, `HEADERS`, `WINDOW_UPDATE`, `SYN_STREAM`: of no use to us.
    Ignored,
}

/// The length of what follows a header.
pub fn payload_len(header: &[u8; HEADER_BYTES]) -> usize {
    usize::from(header[5]) << 16 | usize::from(header[6]) << 8 | usize::from(header[7])
}

/// A frame from its header and what follows.
pub fn decode(header: &[u8; HEADER_BYTES], mut payload: Bytes) -> Frame {
    let first = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
    let fin = header[4] & FLAG_FIN != 0;
    if first & 0x8000_0000 == 0 {
        return Frame::Data { id: first, data: payload, fin };
    }
    let mut number = || match payload.remaining() {
        0..4 => 0,
        _ => payload.get_u32() & 0x7fff_ffff,
    };
    Frame::Control(match first & 0xffff {
        2 => Control::SynReply { id: number(), fin },
        3 => Control::RstStream { id: number(), status: number() },
        6 => Control::Ping { id: number() },
        7 => Control::GoAway,
        _ => Control::Ignored,
    })
}

fn control(kind: u16, flags: u8, payload: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(HEADER_BYTES + payload.len());
    frame.put_u16(0x8003);
    frame.put_u16(kind);
    frame.put_u8(flags);
    frame.put_uint(payload.len() as u64, 3);
    frame.put_slice(payload);
    frame.freeze()
}

/// Opens a stream.
pub fn syn_stream(id: u32, header_block: &[u8], fin: bool) -> Bytes {
    let mut payload = BytesMut::with_capacity(10 + header_block.len());
    payload.put_u32(id);
    payload.put_u32(0); // no associated stream
    payload.put_u16(0); // priority, slot
    payload.put_slice(header_block);
    control(1, if fin { FLAG_FIN } else { 0 }, &payload)
}

/// Breaks a stream off.
pub fn rst_stream(id: u32, status: u32) -> Bytes {
    let mut payload = BytesMut::with_capacity(8);
    payload.put_u32(id);
    payload.put_u32(status);
    control(3, 0, &payload)
}

/// Answers a ping.
pub fn ping(id: u32) -> Bytes {
    control(6, 0, &id.to_be_bytes())
}

/// Bytes of a stream; the caller keeps to [`MAX_DATA_BYTES`].
pub fn data(id: u32, bytes: &[u8], fin: bool) -> Bytes {
    let mut frame = BytesMut::with_capacity(HEADER_BYTES + bytes.len());
    frame.put_u32(id);
    frame.put_u8(if fin { FLAG_FIN } else { 0 });
    frame.put_uint(bytes.len() as u64, 3);
    frame.put_slice(bytes);
    frame.freeze()
}

/// Writes the header blocks of one connection.
#[derive(Debug, Default)]
pub struct HeaderWriter {
    started: bool,
}

impl HeaderWriter {
    /// The next header block.
    pub fn block(&mut self, headers: &[(&str, &str)]) -> Bytes {
        let mut plain = BytesMut::new();
        plain.put_u32(headers.len() as u32);
        for (name, value) in headers {
            let name = name.to_ascii_lowercase();
            plain.put_u32(name.len() as u32);
            plain.put_slice(name.as_bytes());
            plain.put_u32(value.len() as u32);
            plain.put_slice(value.as_bytes());
        }
        let mut block = BytesMut::new();
        if !std::mem::replace(&mut self.started, true) {
            block.put_slice(&[0x78, 0xBB]);
            block.put_u32(DICTIONARY_ID);
        }
        for piece in plain.chunks(usize::from(u16::MAX)) {
            let len = piece.len() as u16;
            block.put_u8(0); // not the last block, stored
            block.put_u16_le(len);
            block.put_u16_le(!len);
            block.put_slice(piece);
        }
        // An empty block, as a flush writes it: Go's inflater hands out what it has only when it meets one, and takes the
        // end of the frame inside a stream for a broken one.
        block.put_slice(&[0, 0, 0, 0xff, 0xff]);
        block.freeze()
    }
}
