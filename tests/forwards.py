"""Two programs for the ends of a forward, for any Python: one that says who it is, and one that reads that."""

SERVER = """
import socket, sys, threading
where = sys.argv[1]
if where.startswith("/"):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(where)
    listener.listen()
else:
    listener = socket.create_server(("127.0.0.1", int(where)))
print("ready", flush=True)
while True:
    listener.accept()[0].sendall(b"of the unit")
"""
READ = """
import socket, sys
where = sys.argv[1]
if where.startswith("/"):
    client = socket.socket(socket.AF_UNIX)
    client.connect(where)
else:
    client = socket.create_connection(("127.0.0.1", int(where)), 5)
if len(sys.argv) > 2:
    client.sendall(b"\\5\\1\\0")
    assert client.recv(2) == b"\\5\\0"
    client.sendall(b"\\5\\1\\0\\1\\x7f\\0\\0\\1" + int(sys.argv[2]).to_bytes(2))
    assert client.recv(10)[:2] == b"\\5\\0", "refused"
print(client.recv(99).decode())
"""
"""Connect, by SOCKS 5 to a second port where one is given, and print what is said."""
