// Gives the keyboard to the terminal as soon as it is on the page.
new MutationObserver((_, observer) => {
  const keyboard = document.querySelector(".xterm-helper-textarea");
  if (keyboard) {
    observer.disconnect();
    keyboard.focus();
  }
}).observe(document, { childList: true, subtree: true });
