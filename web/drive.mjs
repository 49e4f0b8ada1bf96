// Drives the page in Chromium for test_web.py: a command as JSON on each line of standard input, an answer on each line
// of standard output.
import { createInterface } from "node:readline";
import { createRequire } from "node:module";

const [modules, chromium, width = "1100", height = "900", scheme = "light"] = process.argv.slice(2);
const { chromium: browsers } = createRequire(`${modules}/`)("playwright-core");

const browser = await browsers.launch({ executablePath: chromium, args: ["--no-sandbox"] });
const context = await browser.newContext({
  viewport: { width: Number(width), height: Number(height) }, colorScheme: scheme, acceptDownloads: true,
});
const page = await context.newPage();
page.setDefaultTimeout(120_000);
const log = []; // errors of the page, and requests to anything but its server
page.on("pageerror", (error) => log.push(`error: ${error.message}`));
page.on("console", (message) => message.type() === "error" && log.push(`console: ${message.text()}`));
page.on("request", (request) => {
  const url = new URL(request.url());
  if (request.method() !== "GET" || (url.protocol.startsWith("http") && url.hostname !== "127.0.0.1")) log.push(`request: ${request.method()} ${url}`);
});

const commands = {
  open: ({ url }) => page.goto(url),
  choose: ({ selector, file }) => page.setInputFiles(selector, file),
  click: ({ selector }) => page.click(selector),
  fill: ({ selector, text }) => page.fill(selector, text),
  select: ({ selector, value }) => page.selectOption(selector, value),
  press: ({ key }) => page.keyboard.press(key),
  focus: ({ selector }) => page.focus(selector),
  wait: ({ selector, state = "visible" }) => page.waitForSelector(selector, { state }).then(() => null),
  text: ({ selector }) => page.locator(selector).allInnerTexts(),
  value: ({ selector }) => page.inputValue(selector),
  evaluate: ({ script }) => page.evaluate(script),
  screenshot: ({ file, whole = false }) => page.screenshot({ path: file, fullPage: whole }).then(() => null),
  async download({ selector, file }) {
    const [download] = await Promise.all([page.waitForEvent("download"), page.click(selector)]);
    await download.saveAs(file);
    return download.suggestedFilename();
  },
  log: () => log,
};

for await (const line of createInterface({ input: process.stdin })) {
  const { command, ...rest } = JSON.parse(line);
  let answer;
  try {
    answer = { value: (await commands[command](rest)) ?? null };
  } catch (error) {
    answer = { failure: String(error.message ?? error) };
  }
  if (command === "open") answer.value = null;
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();
