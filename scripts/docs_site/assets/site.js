// What the site adds to its theme: players for recordings of the terminal, and glossary terms that lead to the glossary.
// Everything is loaded from beside this script, also where pages come from disk.
"use strict";

(() => {
  const assets = document.currentScript.src.replace(/[^/]*$/, "");
  const waiting = new Map(); // name of a recording -> its element

  // Called by the script that a recording is.
  window.mrcRecording = (name, text) => {
    const element = waiting.get(name);
    window.AsciinemaPlayer.create({ data: text }, element, {
      fit: "width", idleTimeLimit: 2, poster: "npt:99999", preload: true, terminalFontSize: "small",
    });
  };

  function load(tag, attributes) {
    return new Promise((loaded, failed) => {
      const element = Object.assign(document.createElement(tag), attributes);
      element.onload = loaded;
      element.onerror = failed;
      document.head.append(element);
    });
  }

  async function showRecordings() {
    const elements = document.querySelectorAll(".mrc-recording");
    if (!elements.length) return;
    await Promise.all([
      load("link", { rel: "stylesheet", href: `${assets}asciinema-player/asciinema-player.css` }),
      load("script", { src: `${assets}asciinema-player/asciinema-player.min.js` }),
    ]);
    for (const element of elements) {
      const source = element.dataset.recording;
      waiting.set(source.replace(/^.*\//, "").replace(/\.js$/, ""), element);
      await load("script", { src: source });
    }
  }

  function linkTerms() {
    const places = document.querySelector(".mrc-glossary");
    if (!places) return;
    for (const term of document.querySelectorAll(".md-content abbr")) {
      const anchor = places.getAttribute(`data-term-${term.textContent.toLowerCase().replace(/\W+/g, "-")}`);
      if (!anchor || term.closest("a, h1, h2, h3, h4, h5, h6")) continue;
      const link = document.createElement("a");
      link.className = "mrc-term";
      link.href = `${places.dataset.glossary}#${anchor}`;
      term.replaceWith(link);
      link.append(term);
    }
  }

  linkTerms();
  showRecordings();
})();
