// Shows a notification for every push, whatever it holds: a push that shows nothing costs the permission to push.
const GENERIC = { title: "Deckhand", body: "You have a reminder." };

function read(data) {
  try {
    const note = data.json().notification;
    return typeof note.title === "string" && note.title !== "" ? note : GENERIC;
  } catch {
    return GENERIC;
  }
}

async function show({ title, body, tag, navigate }) {
  await self.registration.showNotification(title, { body, tag, data: { navigate: navigate ?? "/" } });
  for (const client of await self.clients.matchAll()) client.postMessage("shown");
}

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("push", (event) => event.waitUntil(show(read(event.data))));
self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(self.clients.openWindow(event.notification.data.navigate));
});
