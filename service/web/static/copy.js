// Buttons that copy a command, and the choice of a cluster without a button.
"use strict";

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  const text = document.getElementById(button.dataset.copy).textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select and copy";
  }
  setTimeout(() => (button.textContent = "Copy"), 2000);
});

document.addEventListener("change", (event) => {
  if (event.target.id === "cluster") event.target.form.submit();
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.closest("input, select, textarea")) return;
  event.preventDefault();
  document.getElementById("q").focus();
});

const show = () => document.querySelectorAll("button[data-copy]").forEach((button) => (button.hidden = false));
document.addEventListener("txnscope:refreshed", show);
show();
