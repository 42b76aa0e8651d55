use tokio::io::DuplexStream;

use super::*;

/// Reads one frame as the server would: header and payload.
async fn next_frame(io: &mut DuplexStream) -> ([u8; 8], Bytes) {
    let mut header = [0; 8];
    io.read_exact(&mut header).await.unwrap();
    let mut payload = vec![0; frame::payload_len(&header)];
    io.read_exact(&mut payload).await.unwrap();
    (header, payload.into())
}

/// SYN_REPLY with an empty header block, which a client ignores.
fn syn_reply(id: u32) -> Vec<u8> {
    let mut frame = vec![0x80, 3, 0, 2, 0, 0, 0, 4];
    frame.extend(id.to_be_bytes());
    frame
}

#[tokio::test]
async fn a_stream_is_opened_fed_half_closed_and_read() {
    let (client, mut server) = tokio::io::duplex(1 << 16);
    let spdy = Arc::new(Spdy::client(client));
    let opening = tokio::spawn({
        let spdy = spdy.clone();
        async move { spdy.open_stream(&[("streamType", "stdin")], false).await.unwrap() }
    });

    let (header, payload) = next_frame(&mut server).await;
    assert_eq!(header[..5], [0x80, 3, 0, 1, 0]);
    assert_eq!(payload[..4], 1u32.to_be_bytes());
    // zlib header with a dictionary, its id, and one stored block.
    assert_eq!(payload[10..16], [0x78, 0xBB, 0xE3, 0xC6, 0xA7, 0xC2]);
    let block = &payload[16..];
    let len = u16::from_le_bytes([block[1], block[2]]);
    assert_eq!((block[0], !len), (0, u16::from_le_bytes([block[3], block[4]])));
    assert_eq!(&block[5..], b"\0\0\0\x01\0\0\0\x0astreamtype\0\0\0\x05stdin\0\0\0\xff\xff");
    assert!(!opening.is_finished(), "a stream isn't open before the other side answered");
    server.write_all(&syn_reply(1)).await.unwrap();
    let mut stream = opening.await.unwrap();

    stream.write_all(b"hello").await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(next_frame(&mut server).await.1, "hello");
    let (header, _) = next_frame(&mut server).await;
    assert_eq!(header, [0, 0, 0, 1, 1, 0, 0, 0], "FIN");

    server.write_all(&frame::data(1, b"world", false)).await.unwrap();
    server.write_all(&frame::data(1, b"!", true)).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "world!");
}

#[tokio::test]
async fn a_second_header_block_goes_on_with_the_zlib_stream() {
    let mut headers = frame::HeaderWriter::default();
    assert_eq!(headers.block(&[])[..2], [0x78, 0xBB]);
    assert_eq!(headers.block(&[("a", "b")])[0], 0, "a stored block follows at once");
}

#[tokio::test]
async fn pings_are_answered_and_resets_reported() {
    let (client, mut server) = tokio::io::duplex(1 << 16);
    let spdy = Spdy::client(client);
    server.write_all(&frame::ping(2)).await.unwrap();
    assert_eq!(next_frame(&mut server).await.1, 2u32.to_be_bytes().as_slice());
    let (opened, ()) = tokio::join!(spdy.open_stream(&[], false), async {
        next_frame(&mut server).await;
        server.write_all(&frame::rst_stream(1, 3)).await.unwrap();
    });
    assert_eq!(opened.err().unwrap().kind(), io::ErrorKind::ConnectionReset);
    drop(server);
    assert!(spdy.open_stream(&[], false).await.is_err());
}
