// Passkeys on the pages: builds what is signed, has it signed, sends it, and shows the answer. Keeps nothing.
"use strict";
(() => {
  const utf8 = new TextEncoder();
  const b64url = (bytes) =>
    btoa(String.fromCharCode(...new Uint8Array(bytes))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  const fromB64url = (text) =>
    Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  // RFC 8785 for an object of strings: JSON.stringify writes strings as it demands; the names are sorted.
  const canonical = (fields) => JSON.stringify(fields, Object.keys(fields).sort());
  const digest = (type, text) => crypto.subtle.digest("SHA-256", utf8.encode(`${type}\0${text}`));
  const credentials = (box) =>
    JSON.parse(box.dataset.credentials).map((id) => ({ type: "public-key", id: fromB64url(id) }));
  const supported = () => Boolean(window.PublicKeyCredential && navigator.credentials && window.crypto.subtle);
  let busy = false;

  const say = (box, name) => {
    const text = name && document.querySelector(`[data-message="${name}"]`);
    const alert = box.querySelector("[data-alert]");
    alert.textContent = text ? text.textContent : "";
    alert.dataset.alert = name;
  };

  // Sends what was signed; the same again when no answer came, which the service answers the same.
  const send = async (url, body) => {
    for (const pause of [0, 1000, 3000]) {
      await new Promise((go) => setTimeout(go, pause));
      try {
        const headers = { "content-type": "application/json", accept: "text/html" };
        return await fetch(url, { method: "POST", headers, body: JSON.stringify(body), redirect: "error" });
      } catch {
        // Once more, or none came.
      }
    }
    return null;
  };

  // Puts the page that was answered in this one's place; false when it is none of ours.
  const show = async (response, quietly) => {
    if (response.status === 204) {
      location.reload();
      return true;
    }
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    if (!page.querySelector("main[data-page]")) return false;
    document.title = page.title;
    document.body.replaceWith(page.body);
    prepare();
    if (quietly) return true;
    scrollTo(0, 0);
    document.querySelector("h1").focus();
    return true;
  };

  const fault = (error) =>
    ({ InvalidStateError: "twice", SecurityError: "refused", NotSupportedError: "unsupported" })[error.name] ||
    "cancelled";

  // Has a passkey asked for once at a time; `ask` gives what is to be sent where.
  const once = async (box, ask) => {
    if (busy) return;
    busy = true;
    const buttons = [...document.querySelectorAll("[data-passkey] button")];
    buttons.forEach((button) => (button.disabled = true));
    say(box, "working");
    try {
      const [url, body] = await ask();
      say(box, "sending");
      const response = await send(url, body);
      if (!response || !(await show(response))) say(box, "unsent");
    } catch (error) {
      say(box, fault(error));
    } finally {
      busy = false;
      buttons.forEach((button) => (button.disabled = false));
    }
  };

  const decide = async (box, choice, reason) => {
    const section = box.closest("[data-decisions]");
    const fields = { ...JSON.parse(box.dataset.decision), decision: choice, reason };
    const text = canonical(fields);
    const publicKey = {
      challenge: await digest(fields.typ, text),
      rpId: section.dataset.rpId,
      allowCredentials: credentials(box),
      userVerification: "required",
      timeout: 300000,
    };
    const value = await sign(publicKey);
    return [section.dataset.decisions, { document: text, proof: { type: "webauthn", value } }];
  };

  const create = async (box, challenge, residentKey) => {
    const publicKey = {
      challenge,
      rp: { id: box.dataset.rpId, name: "Countersign" },
      // Another handle each time, so that no device takes one passkey for a new version of another.
      user: {
        id: crypto.getRandomValues(new Uint8Array(32)),
        name: box.dataset.user,
        displayName: box.dataset.userName,
      },
      pubKeyCredParams: [-7, -8, -257].map((alg) => ({ type: "public-key", alg })),
      excludeCredentials: credentials(box),
      authenticatorSelection: { residentKey, userVerification: "required" },
      attestation: "none",
      timeout: 300000,
    };
    const { response } = await navigator.credentials.create({ publicKey });
    return {
      client_data_json: b64url(response.clientDataJSON),
      attestation_object: b64url(response.attestationObject),
    };
  };

  const enrol = async (box, label) => {
    const text = box.dataset.enrolment;
    // Not one that a device offers unasked: a page has to name it.
    const made = await create(box, await digest(JSON.parse(text).typ, text), "discouraged");
    return [box.dataset.answer, { label, ...made }];
  };

  const enrolToSignIn = async (box) => {
    const challenge = box.dataset.challenge;
    return [box.dataset.answer, { challenge, ...(await create(box, fromB64url(challenge), "required")) }];
  };

  const sign = async (publicKey) => {
    const { rawId, response } = await navigator.credentials.get({ publicKey });
    return canonical({
      credential_id: b64url(rawId),
      authenticator_data: b64url(response.authenticatorData),
      client_data_json: b64url(response.clientDataJSON),
      signature: b64url(response.signature),
    });
  };

  const signIn = async (box) => {
    const { challenge, rpId } = box.dataset;
    const asked = { challenge: fromB64url(challenge), rpId, userVerification: "required", timeout: 300000 };
    return [box.dataset.answer, { challenge, assertion: await sign(asked) }];
  };

  document.addEventListener("submit", (event) => {
    const form = event.target;
    const box = form.closest("[data-passkey]");
    if (!box) return;
    event.preventDefault();
    const typed = (name) => (form.elements[name] ? form.elements[name].value.trim().normalize("NFC") : "");
    const asked = form.dataset;
    if (asked.choice) once(box, () => decide(box, asked.choice, typed("reason")));
    else if ("make" in asked) once(box, () => enrol(box, typed("label")));
    else if ("makeSignIn" in asked) once(box, () => enrolToSignIn(box));
    else if ("signIn" in asked) once(box, () => signIn(box));
  });

  // A person has this page before them, which a mail scanner that fetches it has not.
  const beacon = () => {
    const seen = document.querySelector("[data-viewed]:not([data-told])");
    if (!seen || document.visibilityState !== "visible" || document.prerendering) return;
    seen.dataset.told = "";
    fetch(seen.dataset.viewed, { method: "POST", keepalive: true }).catch(() => {});
  };

  // How far off a time is, in the page's language.
  const countdown = () => {
    const relative = new Intl.RelativeTimeFormat(document.documentElement.lang, { numeric: "always" });
    for (const time of document.querySelectorAll("time[data-deadline]")) {
      const minutes = Math.floor((Date.parse(time.dateTime) - Date.now()) / 60000);
      const [value, unit] =
        Math.abs(minutes) < 120 ? [minutes, "minute"]
        : Math.abs(minutes) < 2880 ? [Math.floor(minutes / 60), "hour"]
        : [Math.floor(minutes / 1440), "day"];
      let note = time.nextElementSibling;
      if (!note || !note.matches(".relative")) {
        note = document.createElement("span");
        note.className = "relative";
        time.after(note);
      }
      note.textContent = ` (${relative.format(value, unit)})`;
    }
  };

  const prepare = () => {
    for (const note of document.querySelectorAll("[data-without-script]")) note.hidden = true;
    for (const box of document.querySelectorAll("[data-passkey]")) {
      box.hidden = false;
      if (!supported()) {
        box.querySelectorAll("button").forEach((button) => (button.disabled = true));
        say(box, "unsupported");
      }
    }
    countdown();
    beacon();
  };

  // Whoever comes back to an old page sees what is true now.
  const refresh = async () => {
    const main = document.querySelector("main[data-page]");
    if (busy || !main || !["sign", "enrol", "inbox"].includes(main.dataset.page)) return;
    const response = await fetch(location.href, { headers: { accept: "text/html" } }).catch(() => null);
    if (!response || busy) return;
    const page = new DOMParser().parseFromString(await response.clone().text(), "text/html");
    const now = page.querySelector("main[data-page]");
    if (now && now.dataset.standing !== main.dataset.standing) await show(response, now.dataset.page === "inbox");
  };

  // Asks whether the inbox changed, which is held for a while and then answered; and once more, and so on.
  const follow = async () => {
    const list = document.querySelector("[data-changes]");
    if (!list || document.visibilityState !== "visible") return setTimeout(follow, 1000);
    const seen = document.querySelector("main").dataset.standing;
    const answer = await fetch(`${list.dataset.changes}?${seen}`).catch(() => null);
    if (answer && (answer.status === 403 || (answer.ok && (await answer.json()).mark !== seen))) {
      if (answer.status === 403) location.reload();
      else await refresh();
    }
    return setTimeout(follow, answer && answer.ok ? 200 : 10000);
  };

  document.addEventListener("visibilitychange", () => {
    beacon();
    if (document.visibilityState === "visible") refresh();
  });
  window.addEventListener("pageshow", (event) => event.persisted && location.reload());
  setInterval(countdown, 30000);
  prepare();
  follow();
})();
