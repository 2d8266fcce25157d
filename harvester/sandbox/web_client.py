"""A web client like bsky.app: a single page whose script loads all content from the API.

Without a session its requests are anonymous. With a session it stores the tokens in local storage, under the key of
bsky.app, and refreshes expired tokens. When a refresh is refused, the session ends.
"""

from harvester.sandbox.responses import HTML_TYPE, SandboxAnswer

ROWS = 30
"""Number of rows in a request."""
_SCRIPT = (
    """
const KEY = 'BSKY_STORAGE', FIRST = innerHeight
const main = document.querySelector('main'), nav = document.querySelector('nav')
const read = () => { try { return JSON.parse(localStorage.getItem(KEY)) || {} } catch { return {} } }
const account = () => read().session?.currentAccount
const keep = told => {
  const session = told && {accounts: [told], currentAccount: told}
  localStorage.setItem(KEY, JSON.stringify({session}))
}

async function send(method, parameters, token) {
  const headers = token ? {Authorization: 'Bearer ' + token} : {}
  const answer = await fetch('/xrpc/' + method + '?' + new URLSearchParams(parameters), {headers})
  return [answer.status, await answer.json().catch(() => ({error: 'HTTP ' + answer.status}))]
}
async function post(method, body, token) {
  const headers = {'Content-Type': 'application/json'}
  if (token) headers.Authorization = 'Bearer ' + token
  const answer = await fetch('/xrpc/' + method, {method: 'POST', headers, body: JSON.stringify(body)})
  return [answer.status, await answer.json()]
}
const renew = old => navigator.locks.request('renew', async () => {
  if (account()?.accessJwt !== old) return
  const [status, told] = await post('com.atproto.server.refreshSession', {}, account().refreshJwt)
  keep(status === 200 ? told : null)
  greet()
})
async function call(method, parameters) {
  const token = account()?.accessJwt
  let [status, told] = await send(method, parameters, token)
  if (token && told.error === 'ExpiredToken') {
    await renew(token)
    ;[status, told] = await send(method, parameters, account()?.accessJwt)
  }
  if (status !== 200) throw new Error(told.message || told.error)
  return told
}

function put(parent, tag, attributes, text) {
  const element = parent.appendChild(document.createElement(tag))
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value)
  element.textContent = text || ''
  return element
}
const near = () => innerHeight + scrollY > document.documentElement.scrollHeight - FIRST

function list(place, method, parameters, name, show) {
  let cursor = '', busy = false
  const more = async () => {
    if (busy || cursor === null || !place.isConnected) return
    busy = true
    try {
      do {
        const told = await call(method, {...parameters, limit: ROWS, ...(cursor ? {cursor} : {})})
        for (const row of told[name]) put(place, 'article', {}, show(row))
        cursor = told.cursor || null
        await call(method, {...parameters, limit: 1}).catch(() => 0) // what is new?
      } while (cursor && near() && place.isConnected)
    } catch (error) {
      put(place, 'p', {role: 'alert'}, error.message)
      cursor = null
    }
    busy = false
  }
  addEventListener('scroll', more)
  more()
}

async function profile(actor, page) {
  const did = actor.startsWith('did:') ? actor : (await call('com.atproto.identity.resolveHandle', {handle: actor})).did
  const view = await call('app.bsky.actor.getProfile', {actor: did})
  put(main, 'h1', {}, view.displayName || view.handle)
  if (page) {
    const method = page === 'follows' ? 'app.bsky.graph.getFollows' : 'app.bsky.graph.getFollowers'
    list(put(main, 'section', {}), method, {actor: did}, page, row => row.handle)
    return
  }
  const tabs = put(main, 'div', {role: 'tablist'})
  let place = put(main, 'section', {})
  const open = (filter, pins) => {
    place.remove()
    place = put(main, 'section', {})
    const parameters = {actor: did, filter, includePins: pins}
    list(place, 'app.bsky.feed.getAuthorFeed', parameters, 'feed', row => row.post.record.text)
  }
  const names = {Posts: 'posts_and_author_threads', Replies: 'posts_with_replies'}
  Object.entries(names).forEach(([name, filter], number) => {
    const tab = put(tabs, 'div', {role: 'tab', 'data-testid': 'profilePager-selector-' + number}, name)
    tab.onclick = () => open(filter, name === 'Posts')
  })
  open(names.Posts, true)
}

function signIn() {
  main.textContent = ''
  const form = put(main, 'form', {})
  const user = put(form, 'input', {'data-testid': 'loginUsernameInput'})
  const password = put(form, 'input', {'data-testid': 'loginPasswordInput', type: 'password'})
  put(form, 'button', {'data-testid': 'loginNextButton'}, 'Next')
  form.onsubmit = async event => {
    event.preventDefault()
    const given = {identifier: user.value, password: password.value}
    const [status, told] = await post('com.atproto.server.createSession', given)
    if (status !== 200) return put(form, 'p', {role: 'alert'}, told.message)
    keep(told)
    main.textContent = ''
    greet()
  }
}
function greet() {
  nav.textContent = ''
  if (account()) put(nav, 'a', {href: '/notifications', 'aria-label': 'Notifications'}, 'Notifications')
  else put(nav, 'button', {'aria-label': 'Sign in'}, 'Sign in').onclick = signIn
}

greet()
const [, top_, actor, page] = location.pathname.split('/').map(decodeURIComponent)
if (top_ === 'profile') profile(actor, page).catch(error => put(main, 'p', {role: 'alert'}, error.message))
"""
).replace("ROWS", str(ROWS))
_PAGE = f"""<!doctype html>
<html><head><title>Sandbox</title><style>article {{ min-height: 120px }}</style></head>
<body><nav></nav><main></main><script>{_SCRIPT}</script></body></html>
"""


def web_page(path: str) -> SandboxAnswer | None:
    """Returns the page for a path of the client; None for other paths."""
    if path == "/" or path.startswith("/profile/"):
        return SandboxAnswer(_PAGE.encode(), 200, HTML_TYPE)
    return None
