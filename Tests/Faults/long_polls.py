"""Families of paths that are well and slow, as long polling is, beside others: they keep nobody out, and each gets its own response."""
import asyncio

POLLS = 128
# Seconds.
PATIENCE = 8


class LongPolls:
    """Two families of so many polls each, again and again while others ask."""

    def __init__(self, cistern, connection, is_fresh, wanted):
        self.cistern, self.connection, self.is_fresh, self.wanted = cistern, connection, is_fresh, wanted
        self.count = self.polled = 0
        self.failed = []

    async def run(self):
        over = asyncio.Event()
        polls = [asyncio.create_task(self.poll(f"/poll-{family}/{number}", over)) for family in "ab" for number in range(POLLS)]
        while await asyncio.to_thread(self.cistern.metric, "cistern_upstream_active_requests") < 2 * POLLS:
            await asyncio.sleep(0.05)
        await asyncio.gather(*(self.beside(number) for number in range(8)))
        over.set()
        await asyncio.gather(*polls)

    async def ask(self, connection, method, target, fields=""):
        try:
            async with asyncio.timeout(PATIENCE):
                answer = await connection.ask(method, target, fields, b"{}" if method == "POST" else None)
        except (asyncio.IncompleteReadError, OSError, asyncio.TimeoutError) as error:
            answer = (0, repr(error), b"")
        if not self.is_fresh(answer, target):
            self.failed.append(f"{method} {target}: {answer[0]} {answer[1]}")

    async def poll(self, target, over):
        connection = self.connection(self.cistern.socket)
        while not over.is_set():
            self.polled += 1
            await self.ask(connection, "GET", target, "Cache-Control: no-store\r\nX-Play: poll\r\n")
        connection.close()

    async def beside(self, worker):
        connection = self.connection(self.cistern.socket)
        while self.count < self.wanted:
            self.count += 1
            number = self.count
            await self.ask(connection, "POST" if number % 5 == 0 else "GET", f"/{'fgh'[number % 3]}/{number}")
        connection.close()
