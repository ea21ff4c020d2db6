"""Draws lines over a logarithmic axis as an SVG that suits light and dark themes."""
import math
from html import escape

WIDTH, HEIGHT = 760, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 208, 44, 56
LABEL_HEIGHT = 16
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328 } .title { font-weight: 600 } .small { font-size: 12px; fill: #59636e }
.grid { stroke: #d1d9e0 } .line { fill: none; stroke-width: 2 } .other { stroke-dasharray: 5 4 }
.a { stroke: #0969da } .b { stroke: #bc4c00 } .a.dot { fill: #0969da } .b.dot { fill: #bc4c00 }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc } .small { fill: #9198a1 } .grid { stroke: #3d444d }
.a { stroke: #58a6ff } .b { stroke: #ffa657 } .a.dot { fill: #58a6ff } .b.dot { fill: #ffa657 } }
"""


def short(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 or value % 1 else f"{value:.0f}"


def linear_ticks(largest):
    step = 10 ** math.floor(math.log10(largest))
    step = next(step * part for part in (0.1, 0.2, 0.5, 1, 2, 5) if largest / (step * part) <= 6)
    return [step * number for number in range(math.ceil(largest / step) + 1)]


def logarithmic_ticks(smallest, largest):
    return [10 ** power for power in range(math.floor(math.log10(smallest)), math.ceil(math.log10(largest)) + 1)]


class Figure:
    """- points: [(position, label)] on the horizontal axis
    - lines: {(server, operation): [value, …]}; the operation selects the colour, and lines of other servers than Cistern are dashed
    """

    def __init__(self, title, x_title, y_title, points, lines):
        self.title, self.x_title, self.y_title, self.points, self.lines = title, x_title, y_title, points, lines
        values = [value for line in lines.values() for value in line]
        self.is_logarithmic = max(values) > 30 * min(values)
        self.ticks = logarithmic_ticks(min(values), max(values)) if self.is_logarithmic else linear_ticks(max(values))

    def x(self, position):
        first, last = math.log(self.points[0][0]), math.log(self.points[-1][0])
        return LEFT + (math.log(position) - first) / (last - first) * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        scale = math.log if self.is_logarithmic else float
        low, high = scale(self.ticks[0]), scale(self.ticks[-1])
        return HEIGHT - BOTTOM - (scale(value) - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    def svg(self):
        parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(self.title)}">',
                 f"<style>{STYLE}</style>", self.text(LEFT, 20, self.title, "title"),
                 self.text(LEFT, 38, self.y_title, "small"),
                 self.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, self.x_title, "small", "middle")]
        for tick in self.ticks:
            y = self.y(tick)
            parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
            parts.append(self.text(LEFT - 8, y + 4, f"{tick:,g}", "small", "end"))
        for position, label in self.points:
            parts.append(f'<path class="grid" d="M{self.x(position):.1f} {HEIGHT - BOTTOM}v5"/>')
            parts.append(self.text(self.x(position), HEIGHT - BOTTOM + 20, label, "small", "middle"))
        operations = list(dict.fromkeys(operation for _, operation in self.lines))
        for (server, operation), values in self.lines.items():
            kind = "ab"[operations.index(operation)]
            parts += self.line(values, kind, "" if server == "Cistern" else " other", f"{server}, {operation}")
        return "\n".join(parts + self.labels() + ["</svg>", ""])

    def line(self, values, kind, other, name):
        places = [(self.x(position), self.y(value)) for (position, _), value in zip(self.points, values)]
        yield f'<path class="line {kind}{other}" d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in places)}"/>'
        for (x, y), (_, label), value in zip(places, self.points, values):
            tip = f"{escape(name)}, {label}: {short(value)}"
            yield f'<circle class="{kind} dot" cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{tip}</title></circle>'

    def labels(self):
        """Names at the ends of the lines, moved apart where they would overlap."""
        names = {line: f"{', '.join(line)}: {short(values[-1])}" for line, values in self.lines.items()}
        ends = sorted((self.y(self.lines[line][-1]), name) for line, name in names.items())
        texts, lowest = [], -math.inf
        for y, name in ends:
            lowest = max(y, lowest + LABEL_HEIGHT)
            texts.append(self.text(WIDTH - RIGHT + 10, lowest + 4, name))
        return texts

    @staticmethod
    def text(x, y, content, kind="", anchor="start"):
        return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(content)}</text>'
