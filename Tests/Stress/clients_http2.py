"""The clients of the stress test over HTTP/2 and TLS: several streams at once, some of which are reset while they run."""
import asyncio
import ssl

import h2.config
import h2.connection
import h2.errors
import h2.events

from clients import Clients


def context():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context


class Stream:
    """One request, and as much of its response as has arrived."""

    def __init__(self, wanted):
        self.wanted, self.rest, self.fields, self.content = wanted, wanted.content(), {}, b""


class HTTP2Clients(Clients):
    tls = context()

    async def connect(self):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.tls, limit=1 << 18)
        writer.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="latin-1"))
        writer.h2.initiate_connection()
        writer.h2.increment_flow_control_window(1 << 24)
        return reader, writer

    async def batch(self, reader, writer):
        connection, streams = writer.h2, {}
        for wanted in [self.wish() for _ in range(self.random.choice([1, 2, 4, 8, 16]))]:
            number = connection.get_next_available_stream_id()
            streams[number] = Stream(wanted)
            pseudo = [(":method", wanted.method), (":scheme", "https"), (":authority", "stress"), (":path", wanted.target)]
            fields = [(name.lower(), value) for name, value in wanted.fields()]
            connection.send_headers(number, pseudo + fields, end_stream=not streams[number].rest)
        leaves = self.random.randrange(100)
        if leaves < 4:
            self.count("reset_while_running")
            number = self.random.choice(list(streams))
            self.send_rest(connection, streams, number, some=True)
            connection.reset_stream(number, h2.errors.ErrorCodes.CANCEL)
            del streams[number]
        while streams:
            for number in streams:
                self.send_rest(connection, streams, number)
            writer.write(connection.data_to_send())
            await writer.drain()
            if leaves == 99:
                self.count("left_while_receiving")
                return False
            data = await asyncio.wait_for(reader.read(1 << 16), 30)
            if not data:
                raise asyncio.IncompleteReadError(b"", None)
            for event in connection.receive_data(data):
                if isinstance(event, h2.events.ConnectionTerminated):
                    return False
                if not self.handle(connection, streams, event):
                    return False
        writer.write(connection.data_to_send())
        return True

    def send_rest(self, connection, streams, number, some=False):
        """Sends as much of the content as the windows allow."""
        stream = streams[number]
        while stream.rest:
            room = min(connection.local_flow_control_window(number), connection.max_outbound_frame_size, len(stream.rest))
            if room <= 0:
                return
            part, stream.rest = stream.rest[:room], stream.rest[room:]
            connection.send_data(number, part, end_stream=not stream.rest and not some)
            if some:
                return

    def handle(self, connection, streams, event):
        """Returns False if the connection is of no more use."""
        stream = streams.get(getattr(event, "stream_id", 0))
        if isinstance(event, h2.events.DataReceived):
            connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        if stream is None:
            return True
        if isinstance(event, h2.events.ResponseReceived):
            stream.fields = {}
            for name, value in event.headers:
                stream.fields[name] = (stream.fields[name] + ", " if name in stream.fields else "") + value
        elif isinstance(event, h2.events.DataReceived):
            stream.content += event.data
        elif isinstance(event, h2.events.StreamReset):
            self.count("stream_reset")
            del streams[event.stream_id]
        elif isinstance(event, h2.events.StreamEnded):
            del streams[event.stream_id]
            return self.take(stream.wanted, int(stream.fields[":status"]), str(stream.fields), stream.fields, stream.content)
        return True
