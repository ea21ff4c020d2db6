// Style sheet of the status page, with light and dark colours and layouts from phones to wall displays.

enum StatusStyle {
    static let text: StaticString = """
        :root {
          --back: #f6f7f9; --card: #fff; --ink: #16202c; --quiet: #566273; --rule: #dde2e9; --line: #1d64c8; --area: #1d64c81f;
          --well: #17693a; --well-back: #dff3e6; --strained: #7a4b00; --strained-back: #fdeecb; --down: #a31621; --down-back: #fde1e1;
        }
        @media (prefers-color-scheme: dark) {
          :root {
            --back: #11161d; --card: #1a212b; --ink: #e8edf4; --quiet: #a0adbd; --rule: #2d3744; --line: #78aefc; --area: #78aefc26;
            --well: #86dfa6; --well-back: #14361f; --strained: #f6cc74; --strained-back: #3b2c0a; --down: #ff9d9d; --down-back: #451a1d;
          }
        }
        * { box-sizing: border-box; }
        body {
          margin: 0 auto; max-width: 78rem; padding: 1rem clamp(.75rem, 3vw, 2rem) 3rem; background: var(--back); color: var(--ink);
          font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; overflow-wrap: anywhere;
        }
        header { display: flex; flex-wrap: wrap; align-items: baseline; gap: .25rem 1rem; margin-bottom: .75rem; }
        header h1 { font-size: 1.25rem; margin: 0; letter-spacing: .01em; }
        header p { margin: 0; }
        #live::before { content: "● "; color: var(--line); }
        section { margin-top: 2rem; }
        h2 { font-size: 1.05rem; margin: 0 0 .6rem; }
        h3 { font-size: .85rem; font-weight: 600; margin: 0; color: var(--quiet); }
        .quiet, caption { color: var(--quiet); font-size: .85rem; }
        nav { display: flex; flex-wrap: wrap; gap: .25rem 1rem; margin-top: .6rem; }
        .hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
        .state {
          margin: 0; padding: 1.1rem 1.25rem; background: var(--card); border: 1px solid var(--rule); border-left: .4rem solid var(--well);
          border-radius: .6rem; display: flex; flex-wrap: wrap; gap: .4rem .9rem; align-items: baseline;
        }
        .state.strained { border-left-color: var(--strained); }
        .state.down { border-left-color: var(--down); }
        .sentence { font-size: clamp(1.1rem, 2.4vw, 1.45rem); line-height: 1.35; font-weight: 600; flex: 1 1 16rem; }
        .sentence span { display: block; }
        .sentence span:not(.first) { font-size: 1rem; font-weight: 400; }
        .legend { margin: .6rem 0 0; border: 0; }
        .legend dl { grid-template-columns: fit-content(40%) minmax(0, 1fr); }
        .legend dd { text-align: left; }
        .last { border: 0; }
        .badge {
          display: inline-block; padding: .05rem .6rem; border-radius: 1rem; font-size: .85rem; font-weight: 600; white-space: nowrap;
          color: var(--well); background: var(--well-back); border: 1px solid currentcolor;
        }
        .badge.strained { color: var(--strained); background: var(--strained-back); }
        .badge.down { color: var(--down); background: var(--down-back); }
        .tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(9rem, 100%), 1fr)); gap: .75rem; list-style: none; margin: 0; padding: 0; }
        .tile, .facts > div, .scroll, .list {
          background: var(--card); border: 1px solid var(--rule); border-radius: .6rem; min-width: 0;
        }
        .tile { padding: .8rem .9rem .5rem; }
        .tile p { margin: 0; }
        .tile.strained .value { color: var(--strained); }
        .tile.down .value { color: var(--down); }
        .value { font-size: 1.6rem; line-height: 1.25; font-weight: 650; font-variant-numeric: tabular-nums; }
        .tile svg { display: block; width: 100%; height: 3rem; margin-top: .4rem; }
        path { fill: none; vector-effect: non-scaling-stroke; }
        .floor { stroke: var(--rule); }
        .line { stroke: var(--line); stroke-width: 1.75; stroke-linejoin: round; stroke-linecap: round; }
        .area { fill: var(--area); }
        .scroll { overflow-x: auto; position: relative; }
        .scroll:focus-visible, a:focus-visible, summary:focus-visible { outline: 2px solid var(--line); outline-offset: 2px; }
        table { border-collapse: collapse; width: 100%; font-size: .92rem; }
        caption { text-align: left; padding: .6rem .9rem 0; }
        th, td { text-align: left; padding: .5rem .9rem; vertical-align: top; border-bottom: 1px solid var(--rule); min-width: 5rem; }
        tbody tr:last-child > * { border-bottom: 0; }
        thead th { font-size: .78rem; color: var(--quiet); font-weight: 600; white-space: nowrap; }
        tbody th { font-weight: 600; min-width: 8rem; }
        tbody bdi { display: inline-block; max-width: 30rem; overflow-wrap: break-word; }
        .number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
        .note { display: block; color: var(--quiet); font-size: .82rem; font-weight: 400; min-width: 10rem; }
        .facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(17rem, 100%), 1fr)); gap: .75rem; }
        .facts > div { padding: .8rem .9rem; }
        dl { display: grid; grid-template-columns: minmax(0, 1fr) fit-content(65%); gap: .15rem 1rem; margin: .4rem 0 0; font-size: .92rem; }
        dt { color: var(--quiet); }
        dd { margin: 0; text-align: right; font-variant-numeric: tabular-nums; }
        dd .note { min-width: 0; }
        .list { padding: .25rem .9rem; }
        details { border-bottom: 1px solid var(--rule); }
        details:last-child { border-bottom: 0; }
        summary { padding: .45rem 0; cursor: pointer; }
        details ul, details p { margin: .2rem 0 .6rem; font-size: .92rem; }
        .tops { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(22rem, 100%), 1fr)); gap: 1rem; }
        .tops > div { min-width: 0; }
        .tops h3 { margin-bottom: .3rem; }
        .tops caption { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; padding: 0; overflow: hidden; }
        .tops th, .tops td { padding: .3rem .9rem; min-width: 0; font-weight: 400; }
        .tops tbody bdi { max-width: none; overflow-wrap: anywhere; }
        .tops .note { display: inline; margin-left: .5rem; }
        a { color: var(--line); }
        footer { margin-top: 2rem; }
        @media (max-width: 46rem) {
          .tiles { grid-template-columns: 1fr 1fr; }
          .value { font-size: 1.3rem; }
          .state { padding: .9rem 1rem; }
          .wide thead { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden; }
          .wide table, .wide caption, .wide tbody, .wide tr { display: block; }
          .wide tr { padding: .6rem .9rem; border-bottom: 1px solid var(--rule); }
          .wide tbody tr:last-child { border-bottom: 0; }
          .wide tbody th, .wide td, .wide td.number {
            display: grid; grid-template-columns: 8rem minmax(0, 1fr); column-gap: .6rem; border: 0; padding: .1rem 0; text-align: left; white-space: normal;
          }
          .wide tbody th { display: block; font-size: 1rem; padding-bottom: .25rem; }
          .wide td::before { content: attr(data-title); color: var(--quiet); font-size: .85rem; grid-column: 1; grid-row: 1; }
          .wide td > * { grid-column: 2; justify-self: start; }
          .note { min-width: 0; }
        }
        """
}
