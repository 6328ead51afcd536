#!/usr/bin/env python3
"""The chat page of `stoa serve` in headless Chromium: asks, streams, stops, edits, asks again, keeps conversations, shows probabilities, in dark and
light and on a phone's width; screenshots go to OUTPUT, to be looked at.  tests/slow/chat_page.py STOA MODEL OUTPUT
MODEL: a directory with a chat template. Needs the package playwright and Debian's chromium."""
import pathlib
import subprocess
import sys

from playwright.sync_api import sync_playwright

program, model, output = sys.argv[1:4]
out = pathlib.Path(output)
out.mkdir(parents=True, exist_ok=True)
server = subprocess.Popen([program, "serve", f"served={model}", "--port", "0"], stdout=subprocess.PIPE, text=True)
url = server.stdout.readline().split()[-1]
failures = []


def expect(name, good, shown=""):
    print(f"{'ok  ' if good else 'FAIL'} {name} {shown}", flush=True)
    if not good:
        failures.append(name)


try:
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": 1100, "height": 760}, color_scheme="light")
        page = context.new_page()
        errors, elsewhere = [], []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: elsewhere.append(request.url) if not request.url.startswith((url, "data:")) else None)
        page.goto(url)
        page.wait_for_selector("#model option", state="attached")
        expect("the message has the focus", page.evaluate("document.activeElement.id") == "input")
        unnamed = page.evaluate("""[...document.querySelectorAll('button, input, select, textarea')].filter(e =>
            !(e.textContent.trim() || e.ariaLabel || e.labels?.length)).map(e => e.outerHTML)""")
        expect("every control has a name", unnamed == [], unnamed)
        ready = "!document.querySelector('#send').hidden"

        def until(condition):  # not wait_for_function: the page's policy forbids what that evaluates
            for _ in range(3000):
                if page.evaluate(condition):
                    return
                page.wait_for_timeout(20)
            raise TimeoutError(condition)

        def ask(text):
            page.fill("#input", text)
            page.keyboard.press("Enter")
            until(ready)

        page.fill("#max_tokens", "40")
        page.fill("#temperature", "0")
        page.fill("#system", "Be brief.")
        ask("What barked?")
        answers = page.locator(".message.assistant .text")
        first = answers.nth(0).inner_text()
        expect("an answer", answers.count() == 1 and len(first) > 0, repr(first[:60]))
        info = page.locator(".message.assistant .info").nth(0).inner_text()
        expect("tokens per second", "tokens/s" in info, info)
        page.locator(".token").nth(2).hover()
        expect("probabilities on hover", "%" in page.locator("#tip").inner_text(), repr(page.locator("#tip").inner_text()[:60]))
        page.screenshot(path=out / "light.png")
        page.mouse.move(5, 5)
        page.get_by_label("Answer again").click()
        until(ready)
        expect("again: the same at temperature 0", answers.nth(0).inner_text() == first)
        page.get_by_label("Edit this message and ask again").click()
        page.get_by_label("Edit the message").fill("The moon set behind")
        page.keyboard.press("Enter")
        until(ready)
        expect("edited", page.locator(".message.user .text").nth(0).inner_text() == "The moon set behind")
        page.fill("#max_tokens", "8000")
        page.fill("#input", "The wind")
        page.keyboard.press("Enter")
        until("document.querySelectorAll('.message.assistant .text')[1]?.textContent.length > 20")
        expect("the button stops", page.locator("#stop").is_visible() and not page.locator("#send").is_visible())
        page.keyboard.press("Escape")
        until(ready)
        expect("stopped, and what came is kept", len(answers.nth(1).inner_text()) > 20)
        page.keyboard.press("Control+Shift+O")
        expect("a new conversation", page.locator(".message").count() == 0 and page.locator("#list li").count() == 2)
        page.fill("#max_tokens", "20")
        ask("Nobody spoke.")
        page.reload()
        page.wait_for_selector("#model option", state="attached")
        expect("conversations are kept", page.locator("#list li").count() == 2 and page.locator(".message").count() == 2)
        page.locator("#list li button").nth(3).click()
        expect("the other one is shown", page.locator(".message").count() == 4)
        page.fill("#max_tokens", "99999999")
        ask("too long")
        expect("an error is shown", "context" in page.locator(".error").inner_text(), page.locator(".error").inner_text()[:80])
        page.locator("#theme").click()
        expect("dark", page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(22, 23, 26)")
        page.screenshot(path=out / "dark.png")
        phone = context.new_page()
        phone.set_viewport_size({"width": 380, "height": 740})
        phone.goto(url)
        phone.wait_for_selector(".message")
        wide = phone.evaluate("document.documentElement.scrollWidth > innerWidth")
        expect("fits a phone", not wide and not phone.locator("#side").is_visible())
        phone.screenshot(path=out / "phone.png")
        phone.locator("#menu").click()
        expect("the menu opens", phone.locator("#side").is_visible())
        phone.screenshot(path=out / "phone-menu.png")
        expect("nothing from elsewhere", elsewhere == [], elsewhere)
        errors = [e for e in errors if "status of 400" not in e]
        expect("no errors in the console", errors == [], errors)
        browser.close()
finally:
    server.terminate()
    server.wait(90)
sys.exit(bool(failures))
