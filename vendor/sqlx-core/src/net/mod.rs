mod socket;
pub mod tls;

#[cfg(feature = "_rt-tokio")]
pub use socket::answer_within;
pub use socket::{
    connect_tcp, connect_uds, BufferedSocket, Socket, SocketIntoBox, WithSocket, WriteBuffer,
};
