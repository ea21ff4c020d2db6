// The script of the status page. Every two seconds it requests the page and replaces changed parts. It keeps a part with open details or
// with the focus, and pauses while the page is hidden.

enum StatusScript {
    static let text: StaticString = """
        (() => {
          "use strict";
          const note = document.getElementById("live");
          const say = text => {
            if (note.textContent && note.textContent !== text) announce(text);
            if (note.textContent !== text) note.textContent = text;
            note.hidden = false;
          };
          const take = fresh => {
            for (const old of document.querySelectorAll("[data-live]")) {
              const next = fresh.getElementById(old.id);
              if (!next || next.innerHTML === old.innerHTML) continue;
              if (old.querySelector("details[open]") || (old !== document.activeElement && old.contains(document.activeElement))) continue;
              const spots = [...old.querySelectorAll(".scroll")].map(part => part.scrollLeft);
              old.replaceChildren(...next.childNodes);
              old.querySelectorAll(".scroll").forEach((part, place) => { part.scrollLeft = spots[place] || 0; });
            }
            if (document.title !== fresh.title) {
              document.title = fresh.title;
              document.getElementById("icon").href = fresh.getElementById("icon").href;
            }
          };
          const states = page => page.querySelector("[data-states]").dataset.states;
          const announce = text => { document.getElementById("announcement").textContent = text; };
          let known = states(document);
          if (matchMedia("(max-width: 46rem)").matches) document.getElementById("last-all")?.removeAttribute("open");
          const look = async () => {
            if (!document.hidden) {
              try {
                // Older browsers know no such signal, and wait.
                const response = await fetch(location.pathname, {cache: "no-store", redirect: "error", signal: AbortSignal.timeout?.(10000)});
                if (!response.ok) throw new Error(response.status);
                const text = await response.text();
                const fresh = new DOMParser().parseFromString(text.replace(/<style[^]*?<[/]style>/, ""), "text/html");
                // Before take, which moves nodes.
                const current = states(fresh);
                take(fresh);
                say("live");
                if (current !== known) announce(known = current);
              } catch { say("no response: these are the last numbers"); }
            }
            setTimeout(look, 2000);
          };
          setTimeout(look, 2000);
        })();
        """
}
