// Fills the network through its own API and returns the truth: all that a complete and correct harvest,
// made without logging in, has to find.
//
// Handles, texts, record keys, dates and the graph follow from SEED_RANDOM; DIDs do not.
//   SEED_RANDOM    1    seed of the generator
//   SEED_ACCOUNTS  40   accounts that post
//   SEED_CROWD     130  accounts that only follow, so that lists of followers have pages
//   SEED_POSTS     16   posts of an account, on average
//   SEED_BUSIEST   240  posts of the first account, so that feeds have pages
import sharp from 'sharp'

export const settingsFrom = (env) => ({
  random: Number(env.SEED_RANDOM || 1),
  accounts: Math.max(12, Number(env.SEED_ACCOUNTS || 40)), // the cases below name the first twelve
  crowd: Number(env.SEED_CROWD || 130),
  posts: Math.max(4, Number(env.SEED_POSTS || 16)),
  busiest: Math.max(60, Number(env.SEED_BUSIEST || 240)), // and some of the first account's posts
})

// One account of each kind, apart from the ordinary `author` and `crowd`.
const SPECIAL_KINDS = [
  'deactivated', 'takendown', 'pds-takendown', 'deleted', // not to be seen
  'private', 'intents', // opted out
  'blocker', 'blocked', 'blocks-hub',
  'noprofile', 'empty', 'labelled', 'oldname', 'badhandle', 'longbio',
]
const HIDDEN_KINDS = new Set(['deactivated', 'takendown', 'pds-takendown', 'deleted'])
const OPT_OUTS = { private: 'no-unauthenticated', intents: 'intents' }

const FIRST_NAMES = [
  'agnes', 'bruno', 'chen', 'dora', 'emil', 'fatou', 'gita', 'hugo', 'ilse', 'jomo',
  'kofi', 'lars', 'mina', 'nuno', 'oyuna', 'petra', 'rui', 'sofia', 'timur', 'vera',
]
const DISPLAY_NAMES = [
  'Agnès 🌻', 'Bruno <i>B.</i>', '陈', '', 'Émile & fils', 'فاطو', 'गीता', ' Hugo  ', '"Ilse"', 'J\u200bomo',
]
const SENTENCES = [
  ['en', 'Went for a walk, saw two herons and a very loud goose.'],
  ['en', 'Line one\n\n  line three, indented\twith a tab'],
  ['en', '<b>no markup</b> & "quotes", commas, \\backslashes\\; =SUM(A1:A3)'],
  ['de', 'Übermorgen fährt die Straßenbahn wieder öfter.'],
  ['fr', 'Où est passé le garçon qui vendait des crêpes ?'],
  ['ja', '昨日の夜、駅前で不思議な猫に会いました🐈‍⬛'],
  ['zh', '这家面馆的汤很好喝。'],
  ['ar', 'ذهبنا إلى السوق صباح اليوم.'],
  ['he', 'הרכבת איחרה שוב הבוקר.'],
  ['hi', 'आज बारिश बहुत तेज़ है।'],
  ['ru', 'Ёжик пьёт чай с вареньем.'],
  ['tr', 'Iğdır\'da ılık bir İlkbahar günü.'],
  ['en', 'Family 👩‍👩‍👧‍👦, flag 🏴󠁧󠁢󠁳󠁣󠁴󠁿, wave 👋🏾, e\u0301 is not é'],
]
const TAGS = ['birds', 'Zürich', '写真', 'art', '2025']

const DAY = 86_400_000
const FIRST_DAY = Date.parse('2024-01-01T00:00:00Z')
const LAST_DAY = Date.parse('2025-06-30T00:00:00Z')
const BROAD_REPLIES = 60
const IMPORTED = 200 // posts of older days than their keys: at least one page of 100 has no others
const DEEPEST = 8 // getPostThread gives 6 levels unless asked for more

// ---- helpers --------------------------------------------------------------------------------------

// The same numbers in [0, 1) for the same seed (splitmix32).
class Random {
  constructor(seed) {
    this.state = seed
  }
  next() {
    this.state = (this.state + 0x9e3779b9) | 0
    let x = this.state ^ (this.state >>> 16)
    x = Math.imul(x, 0x21f0aaad)
    x = Math.imul(x ^ (x >>> 15), 0x735a2d97)
    return ((x ^ (x >>> 15)) >>> 0) / 2 ** 32
  }
  below(n) {
    return Math.floor(this.next() * n)
  }
  of(list) {
    return list[this.below(list.length)]
  }
}

// A record key of the given time: 53 bits of microseconds and 10 of clock, in base 32.
const recordKey = (micros) => {
  let bits = BigInt(micros) << 10n
  let key = ''
  for (let i = 0; i < 13; i++, bits >>= 5n) key = '234567abcdefghijklmnopqrstuvwxyz'[Number(bits & 31n)] + key
  return key
}

const fewAtOnce = async (items, work, workers = 3) => {
  const iterator = items.values()
  const worker = async () => {
    for (const item of iterator) await work(item)
  }
  await Promise.all(Array.from({ length: workers }, worker))
}

const byteLength = (text) => Buffer.byteLength(text, 'utf8')
const reference = (post) => ({ uri: post.uri, cid: post.cid })

const request = async (service, nsid, { json, bytes, type = 'application/json', authorization }) => {
  const response = await fetch(`${service}/xrpc/${nsid}`, {
    method: 'POST',
    headers: { 'content-type': type, ...(authorization && { authorization }) },
    body: bytes ?? JSON.stringify(json),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`${nsid}: ${response.status} ${text.slice(0, 300)}`)
  return text ? JSON.parse(text) : {}
}

// ---- the world: accounts, what they wrote, and what has not been sent yet ---------------------------

class World {
  accounts = []
  posts = []
  reposts = []
  likes = []
  lists = []
  labels = []
  gone = new Set()
  counts = {}
  #keys = new Set()
  #dates = new Set()

  constructor(network, random) {
    this.network = network
    this.random = random
  }

  addAccount(handle, kind, displayName) {
    const account = {
      n: this.accounts.length, handle, kind, displayName, hidden: HIDDEN_KINDS.has(kind),
      follows: [], posts: [], unsent: [], blobs: new Map(),
    }
    this.accounts.push(account)
    return account
  }

  async createAccounts() {
    await fewAtOnce(this.accounts, async (account) => {
      account.password = `pw-${account.handle}`
      const created = await request(this.network.pds, 'com.atproto.server.createAccount', {
        json: { handle: account.handle, email: `${account.handle}@example.com`, password: account.password },
      })
      account.did = created.did
      account.authorization = `Bearer ${created.accessJwt}`
    })
  }

  call(account, nsid, options) {
    return request(this.network.pds, nsid, { authorization: account.authorization, ...options })
  }

  administer(service, nsid, json) {
    return request(service, nsid, { authorization: this.network.adminAuthorization, json })
  }

  // Queues a record; `send` gives it its cid. Without `key`, the key is a fresh one of the time `ms`.
  write(account, collection, record, { ms = LAST_DAY, key } = {}) {
    if (!key) {
      let micros = Math.floor(ms) * 1000
      while (this.#keys.has((key = recordKey(micros)))) micros++
      this.#keys.add(key)
    }
    const written = { uri: `at://${account.did}/${collection}/${key}`, cid: undefined }
    account.unsent.push({ collection, key, record: { $type: collection, ...record }, written })
    return written
  }

  async send() {
    const writers = this.accounts.filter((account) => account.unsent.length > 0)
    await fewAtOnce(writers, async (account) => {
      while (account.unsent.length > 0) {
        const batch = account.unsent.splice(0, 100) // the PDS takes 200 writes and 150 kB a call
        const { results } = await this.call(account, 'com.atproto.repo.applyWrites', {
          json: {
            repo: account.did,
            writes: batch.map(({ collection, key, record }) => ({
              $type: 'com.atproto.repo.applyWrites#create', collection, rkey: key, value: record,
            })),
          },
        })
        for (const [i, { cid }] of results.entries()) {
          batch[i].written.cid = cid
          this.counts[batch[i].collection] = (this.counts[batch[i].collection] ?? 0) + 1
        }
      }
    })
  }

  async delete(account, uri) {
    const [collection, rkey] = uri.split('/').slice(-2)
    await this.call(account, 'com.atproto.repo.deleteRecord', { json: { repo: account.did, collection, rkey } })
  }

  // A date that no other record about the same subject has: equal records of two accounts have equal cids,
  // and (date, cid) is the AppView's cursor, so it loses one of them where a page ends.
  #dateFor(subject, ms) {
    ms = Math.floor(Math.min(ms, LAST_DAY))
    while (this.#dates.has(`${subject} ${ms}`)) ms++
    this.#dates.add(`${subject} ${ms}`)
    return ms
  }

  follow(from, to, ms) {
    if (from === to || from.follows.some((follow) => follow.to === to)) return
    ms = this.#dateFor(to.did, ms)
    const record = { subject: to.did, createdAt: new Date(ms).toISOString() }
    from.follows.push({ to, ...this.write(from, 'app.bsky.graph.follow', record, { ms }) })
  }

  #react(list, collection, by, post, ms) {
    if (list.some((other) => other.by === by && other.post === post)) return
    ms = this.#dateFor(`${collection} ${post.uri}`, ms)
    const record = { subject: reference(post), createdAt: new Date(ms).toISOString() }
    list.push({ by, post, createdAt: record.createdAt, ...this.write(by, collection, record, { ms }) })
  }

  like(by, post, ms) {
    this.#react(this.likes, 'app.bsky.feed.like', by, post, ms)
  }

  repost(by, post, ms) {
    this.#react(this.reposts, 'app.bsky.feed.repost', by, post, ms)
  }

  // `more`: `kind` and, as they apply, `parent`, `root`, `depth`, `quotes` of the truth.
  post(by, ms, record, more = { kind: 'post' }) {
    ms = Math.floor(ms)
    record = { createdAt: new Date(ms).toISOString(), ...record }
    const post = Object.assign(this.write(by, 'app.bsky.feed.post', record, { ms }), { by, ms, record, ...more })
    by.posts.push(post)
    this.posts.push(post)
    return post
  }

  reply(by, parent, record, ms = parent.ms + 60_000 * (1 + this.random.below(600))) {
    const root = parent.root ?? parent
    const reply = { root: reference(root), parent: reference(parent) }
    return this.post(by, ms, { ...record, reply }, { kind: 'reply', parent, root, depth: (parent.depth ?? 0) + 1 })
  }

  list(by, name, purpose, members) {
    const createdAt = new Date(LAST_DAY).toISOString()
    const record = { name, purpose: `app.bsky.graph.defs#${purpose}`, createdAt }
    const list = Object.assign(this.write(by, 'app.bsky.graph.list', record), { by, name, purpose, members })
    for (const { did } of members) {
      this.write(by, 'app.bsky.graph.listitem', { list: list.uri, subject: did, createdAt })
    }
    this.lists.push(list)
    return list
  }

  async label(uri, val, cid) {
    await this.network.label(uri, val, cid)
    this.labels.push({ uri, val, src: this.network.labeler })
  }

  quote(by, quoted, ms, media) {
    const record = { $type: 'app.bsky.embed.record', record: reference(quoted) }
    const embed = media ? { $type: 'app.bsky.embed.recordWithMedia', record, media } : record
    return this.post(by, ms, { text: `look at ${quoted.uri.slice(-13)}`, embed }, { kind: 'quote', quotes: quoted })
  }

  // Uploads a blob once for each account, as a repository may refer only to its own.
  async blob(account, { name, bytes, type }) {
    if (!account.blobs.has(name)) {
      const { blob } = await this.call(account, 'com.atproto.repo.uploadBlob', { bytes, type })
      account.blobs.set(name, blob)
    }
    return account.blobs.get(name)
  }
}

// ---- the parts of the filling ------------------------------------------------------------------------

const drawPictures = () =>
  Promise.all(
    ['jpeg', 'png', 'webp', 'jpeg', 'png', 'jpeg'].map(async (format, i) => {
      const [width, height] = [[640, 480], [360, 540], [900, 300]][i % 3]
      const background = { r: 40 * i, g: 255 - 40 * i, b: 120 }
      const bytes = await sharp({ create: { width, height, channels: 3, background } }).toFormat(format).toBuffer()
      return { name: `picture ${i}`, type: `image/${format}`, bytes, width, height }
    }),
  )

async function writeProfiles(world, pictures) {
  const owners = world.accounts.filter(
    ({ kind, n }) => kind !== 'noprofile' && kind !== 'empty' && !(kind === 'crowd' && n % 3 === 0),
  )
  await fewAtOnce(owners, async (account) => {
    const { n, kind } = account
    const profile = {
      displayName: account.displayName,
      description: `This is ${account.handle}.\nFriend of @agnes.test 🌍 #intro https://example.com/${n}`,
      createdAt: new Date(FIRST_DAY - DAY * (n + 1)).toISOString(),
    }
    if (kind === 'longbio') {
      profile.displayName = '🧑🏽‍🚒'.repeat(36) // 64 graphemes and 640 bytes are allowed
      profile.description = 'é🏴‍☠️ z'.repeat(64)
    }
    if (kind === 'private') {
      profile.labels = { $type: 'com.atproto.label.defs#selfLabels', values: [{ val: '!no-unauthenticated' }] }
    }
    if (kind !== 'crowd' || n % 3 === 1) profile.avatar = await world.blob(account, pictures[n % 2])
    if (kind !== 'crowd' && n % 4 !== 3) profile.banner = await world.blob(account, pictures[3])
    account.profile = profile
    world.write(account, 'app.bsky.actor.profile', profile, { key: 'self' })
  })
  const declarer = world.accounts.find(({ kind }) => kind === 'intents')
  const updatedAt = new Date(FIRST_DAY).toISOString()
  world.write(
    declarer,
    'org.user-intents.declaration',
    { updatedAt, bulkDataset: { allow: false, updatedAt }, protocolBridging: { updatedAt } },
    { key: 'self' },
  )
  await world.send()
}

// The first accounts are followed most; the second follows everyone; `empty` has no part in it.
async function writeFollows(world) {
  const { random, accounts } = world
  const connected = accounts.filter(({ kind }) => kind !== 'empty')
  const followed = connected.filter(({ kind }) => kind !== 'crowd')
  for (const account of connected) {
    const follows = account.kind === 'crowd' ? random.below(7) : 2 + random.below(followed.length / 2)
    for (let i = 0; i < follows; i++) {
      const popular = followed[Math.floor(followed.length * random.next() ** 2.5)]
      world.follow(account, popular, FIRST_DAY + random.next() * (LAST_DAY - FIRST_DAY))
    }
    if (account.n % 9 !== 8) world.follow(account, accounts[0], FIRST_DAY + account.n * 60_000)
    world.follow(accounts[1], account, FIRST_DAY + account.n * 60_000)
  }
  const [blocker, blocked] = ['blocker', 'blocked'].map((kind) => accounts.find((account) => account.kind === kind))
  world.follow(blocker, blocked, FIRST_DAY)
  world.follow(blocked, blocker, FIRST_DAY)
  await world.send()
}

function compose(world, by, i) {
  const [language, sentence] = world.random.of(SENTENCES)
  const record = { text: `${sentence} (${by.handle}, no ${i})` }
  const facets = []
  const append = (words, feature) => {
    const byteStart = byteLength(`${record.text} `)
    record.text += ` ${words}`
    facets.push({ index: { byteStart, byteEnd: byteLength(record.text) }, features: [feature] })
  }
  if (i % 4 === 0) {
    const tag = world.random.of(TAGS)
    append(`#${tag}`, { $type: 'app.bsky.richtext.facet#tag', tag })
  }
  if (i % 5 === 1) {
    const friend = world.accounts[world.random.below(12)]
    append(`@${friend.handle}`, { $type: 'app.bsky.richtext.facet#mention', did: friend.did })
  }
  if (i % 6 === 2) {
    const uri = `https://example.com/${i}?q=ä%20b#top`
    append(`example.com/${i}…`, { $type: 'app.bsky.richtext.facet#link', uri })
  }
  if (facets.length > 0) record.facets = facets
  if (i % 7 < 5) record.langs = i % 7 === 0 ? [language, 'eo'] : [language]
  if (i % 10 === 3) record.tags = ['not-in-the-text']
  return record
}

async function imagesOf(world, by, pictures, number) {
  const images = []
  for (let i = 0; i < number; i++) {
    const picture = world.random.of(pictures)
    const image = { image: await world.blob(by, picture), alt: i % 2 ? '' : 'what "it" shows,\nin two lines 🖼️' }
    if (i % 3 < 2) image.aspectRatio = { width: picture.width, height: picture.height }
    images.push(image)
  }
  return { $type: 'app.bsky.embed.images', images }
}

async function writePosts(world, pictures, settings) {
  const { random, accounts } = world
  const numberFor = ({ n, kind }) => {
    if (['crowd', 'empty', 'noprofile'].includes(kind)) return 0
    if (n < 3) return Math.round(settings.busiest / (1 + n / 10))
    return kind === 'author' ? Math.ceil(settings.posts * (0.25 + 1.5 * random.next())) : 6
  }
  for (const by of accounts) {
    const number = numberFor(by)
    for (let i = 0; i < number; i++) {
      const record = compose(world, by, i)
      if (i % 8 === 1) record.embed = await imagesOf(world, by, pictures, 1 + random.below(4))
      if (i % 8 === 5) {
        const uri = `https://example.com/${by.n}/${i}?a=b&c=%20`
        const external = { uri, title: `Page “${i}” & more`, description: '' }
        if (i % 16 === 5) external.thumb = await world.blob(by, pictures[0])
        record.embed = { $type: 'app.bsky.embed.external', external }
      }
      // runs of four posts have one date: ties in the order of the feed
      const fraction = Math.floor(i / 4) / Math.ceil(number / 4)
      world.post(by, FIRST_DAY + by.n * 1001 + fraction * (LAST_DAY - FIRST_DAY - 60 * DAY), record)
    }
  }
  const [hub, , , fourth] = accounts
  // The AppView never looks into a video: a file that says it is one will do.
  const video = { name: 'video', type: 'video/mp4', bytes: Buffer.from(`\0\0\0\x18ftypmp42${'\0'.repeat(2000)}`) }
  const embed = { $type: 'app.bsky.embed.video', alt: 'a video', video: await world.blob(hub, video) }
  const tagged = (byteStart, byteEnd, tag) => ({
    index: { byteStart, byteEnd }, features: [{ $type: 'app.bsky.richtext.facet#tag', tag }],
  })
  const facets = [
    tagged(1, 5, 'begins within a character'), tagged(9, 5, 'reversed'),
    tagged(5, 11, 'two code points'), tagged(0, 99, 'beyond the end'),
  ]
  const oddities = [
    [hub, { text: 'a video', embed }],
    [hub, { text: 'from the future', createdAt: '2099-12-31T23:59:59.999Z' }],
    [hub, { text: 'from another age', createdAt: '1993-04-30T00:00:00.000Z' }],
    [hub, { text: 'from another zone', createdAt: '2024-06-01T12:00:00.123456+09:00' }],
    [hub, { text: 'to the second', createdAt: '2024-06-01T12:00:00Z' }],
    [fourth, { text: '' }],
    [fourth, { text: '🦢 🦢é swans', facets }],
    [fourth, { text: 'y'.repeat(300) }],
    [fourth, { text: '👩‍👩‍👧‍👦'.repeat(100) }], // 2500 bytes, 300 graphemes and 3000 bytes are allowed
    [
      fourth,
      {
        text: 'labelled by its author',
        labels: { $type: 'com.atproto.label.defs#selfLabels', values: [{ val: 'nudity' }] },
      },
    ],
  ]
  for (const [i, [by, record]] of oddities.entries()) world.post(by, LAST_DAY - 50 * DAY + i * 1000, record)
  for (let i = 0; i < IMPORTED; i++) {
    const createdAt = new Date(FIRST_DAY - 365 * DAY + i * 60_000).toISOString()
    world.post(accounts[10], LAST_DAY - 70 * DAY + i * 1000, { text: `imported, no ${i}`, createdAt })
  }
  await world.send()
}

// Threads grow by one level at a time, as a reply names the cid of its parent.
async function writeThreads(world, pictures) {
  const { random, accounts } = world
  const talkers = accounts.filter(({ kind, posts }) => posts.length > 0 && kind !== 'pds-takendown')
  const broad = accounts[0].posts[5]
  const deep = accounts[2].posts[5]
  const roots = Array.from({ length: Math.ceil(world.posts.length / 20) }, () => random.of(world.posts))
  let parents = [...new Set([broad, deep, ...roots])]
  for (let depth = 1; depth <= DEEPEST; depth++) {
    const replies = []
    for (const parent of parents) {
      let number = random.next() < 0.6 ? 1 : 0
      if (depth === 1) number = 1 + random.below(3)
      if ((parent.root ?? parent) === deep) number = 1
      if (parent === broad) number = BROAD_REPLIES
      for (let i = 0; i < number; i++) {
        const by = parent === broad && i % 6 === 0 ? accounts[0] : random.of(talkers)
        const record = compose(world, by, depth * 1000 + i)
        if (i % 9 === 4) record.embed = await imagesOf(world, by, pictures, 1)
        replies.push(world.reply(by, parent, record))
      }
    }
    await world.send()
    // of the replies to the broad one, only the first few are answered
    parents = replies.filter(({ parent }, i) => parent !== broad || i < 6)
  }
  return broad
}

// Replies that a thread does not show, though the feed of their author does; and quotes of what is not there.
async function writeBrokenThreads(world, special, pictures) {
  const { accounts } = world
  const { blocker, blocked } = special
  const late = LAST_DAY - 20 * DAY
  const say = (by, text, days = 0) => world.post(by, late + days * DAY, { text })

  const blockThread = say(blocker, 'whoever answers this will be blocked')
  const deletedPost = say(accounts[5], 'deleted, its reply stays')
  const deletedQuoted = say(accounts[5], 'deleted, its quote stays')
  const takendownPost = say(accounts[6], 'taken down by the AppView, its reply stays')
  const cutThread = say(accounts[7], 'the only answer to this is deleted, the answer to it stays')
  const optedOutAnswers = say(accounts[8], 'answered only by those who opted out')
  const answeredOptOut = say(special.private, 'answered by one who did not opt out')
  const detachable = say(accounts[9], 'quoted, and then detached from the quote')
  await world.send()

  const answer = (by, parent) => world.reply(by, parent, { text: `answer of ${by.handle} to ${parent.uri.slice(-13)}` })
  const blockedReply = answer(blocked, blockThread)
  const orphanReply = answer(accounts[6], deletedPost)
  const cutReply = answer(accounts[8], cutThread)
  answer(accounts[7], takendownPost)
  answer(special.private, optedOutAnswers)
  answer(special.intents, optedOutAnswers)
  answer(accounts[9], answeredOptOut)
  await world.send()
  answer(accounts[2], blockedReply)
  answer(accounts[9], cutReply)

  world.quote(accounts[7], deletedQuoted, late + DAY)
  const hiding = [special.deactivated, special.takendown, special['pds-takendown'], special.private, special.intents]
  for (const [i, { posts }] of hiding.entries()) world.quote(accounts[i + 2], posts[0], late + 2 * DAY)
  const detachedQuote = world.quote(accounts[10], detachable, late + DAY)
  const blockedQuote = world.quote(blocked, blocker.posts[0], late + DAY)
  const { random } = world
  const quotable = world.posts.filter(({ cid, by }) => cid && by.kind === 'author')
  for (let i = 0; i < 40; i++) {
    const by = accounts[random.below(12)]
    const media = i % 4 === 0 ? await imagesOf(world, by, pictures, 2) : undefined
    world.quote(by, random.of(quotable), late + 3 * DAY + i * 60_000, media)
  }
  await world.send()
  const quoteOfQuote = world.quote(accounts[3], blockedQuote, late + 5 * DAY)
  await world.send()
  world.quote(accounts[4], quoteOfQuote, late + 6 * DAY)

  const key = detachable.uri.split('/').at(-1)
  const postgate = {
    post: detachable.uri, detachedEmbeddingUris: [detachedQuote.uri], createdAt: new Date(late + 7 * DAY).toISOString(),
  }
  world.write(accounts[9], 'app.bsky.feed.postgate', postgate, { key })
  await world.send()
  return {
    blockThread, deletedPost, deletedQuoted, takendownPost, cutThread, cutReply, orphanReply, optedOutAnswers,
    detachedQuote,
  }
}

async function writeReactions(world, special, broken) {
  const { random, accounts } = world
  const [hub, second] = accounts
  const popular = hub.posts[0]
  const reactors = accounts.filter(({ kind }) => kind === 'author')
  const soonAfter = ({ ms }) => ms + 3_600_000
  for (const account of accounts) {
    if (account.kind !== 'empty' && account.n % 7 !== 6) world.like(account, popular, FIRST_DAY + 10 * DAY)
  }
  for (const account of reactors) world.repost(account, popular, FIRST_DAY + 10 * DAY + account.n)
  for (let i = 0; i < world.posts.length / 2; i++) {
    const post = random.of(world.posts)
    world.like(random.of(reactors), post, soonAfter(post))
  }
  for (let i = 0; i < world.posts.length / 8; i++) {
    const post = random.of(world.posts)
    world.repost(i % 3 ? accounts[random.below(3)] : random.of(reactors), post, soonAfter(post))
  }
  world.repost(hub, hub.posts[1], LAST_DAY) // its own
  for (const post of [broken.deletedPost, broken.takendownPost]) world.repost(second, post, LAST_DAY)
  for (const kind of ['deactivated', 'takendown', 'private']) world.repost(second, special[kind].posts[1], LAST_DAY)
  for (const kind of ['private', 'intents']) world.repost(special[kind], popular, LAST_DAY)
  await world.send()
  return popular
}

// Lists, a starter pack, a feed, a thread gate, a pinned post.
async function writeExtras(world) {
  const [hub, second, third] = world.accounts
  const createdAt = new Date(LAST_DAY).toISOString()
  const authors = world.accounts.filter(({ kind }) => kind === 'author')
  const others = world.accounts.filter(({ kind, hidden }) => !hidden && !['author', 'crowd'].includes(kind))
  const list = world.list(hub, 'Neighbours & <friends>', 'curatelist', authors)
  world.list(second, 'Élèves 🏫', 'modlist', others)
  world.list(third, 'Nobody', 'curatelist', [])
  const pack = world.write(hub, 'app.bsky.graph.starterpack', { name: 'Begin here', list: list.uri, createdAt })
  world.lists.push({ ...pack, by: hub, name: 'Begin here', purpose: 'starterpack', members: [] })
  const feed = { did: 'did:web:feeds.test', displayName: 'Served by nobody', createdAt }
  world.write(second, 'app.bsky.feed.generator', feed, { key: 'nobody' })
  const gated = third.posts[7] // answers that came before the gate stay
  const gate = { post: gated.uri, allow: [], createdAt }
  world.write(third, 'app.bsky.feed.threadgate', gate, { key: gated.uri.split('/').at(-1) })
  await world.send()

  const pinned = hub.posts[30]
  const record = { $type: 'app.bsky.actor.profile', ...hub.profile, pinnedPost: reference(pinned) }
  await world.call(hub, 'com.atproto.repo.putRecord', {
    json: { repo: hub.did, collection: 'app.bsky.actor.profile', rkey: 'self', record },
  })
  return { list, gated, pinned }
}

// Deletions, blocks, takedowns, labels: all that happens to what was written.
async function loseThings(world, special, broken) {
  const { network, accounts } = world
  const [hub] = accounts
  for (const post of [broken.deletedPost, broken.deletedQuoted, broken.cutReply, ...hub.posts.slice(40, 44)]) {
    await world.delete(post.by, post.uri)
    world.gone.add(post)
  }
  await world.delete(accounts[3], accounts[3].follows.pop().uri)

  for (const [by, of] of [[special.blocker, special.blocked], [special['blocks-hub'], hub]]) {
    world.write(by, 'app.bsky.graph.block', { subject: of.did, createdAt: new Date(LAST_DAY).toISOString() })
  }
  await world.send()
  await network.settle()

  const takeDown = (service, subject) =>
    world.administer(service, 'com.atproto.admin.updateSubjectStatus', {
      subject,
      takedown: { applied: true, ref: 'SEED' },
    })
  const repository = ({ did }) => ({ $type: 'com.atproto.admin.defs#repoRef', did })
  await takeDown(network.appview, repository(special.takendown))
  await takeDown(network.pds, repository(special['pds-takendown']))
  await takeDown(network.appview, { $type: 'com.atproto.repo.strongRef', ...reference(broken.takendownPost) })
  world.gone.add(broken.takendownPost)
  await world.call(special.deactivated, 'com.atproto.server.deactivateAccount', { json: {} })
  await world.administer(network.pds, 'com.atproto.admin.deleteAccount', { did: special.deleted.did })
  special.oldname.formerHandle = special.oldname.handle
  special.oldname.handle = 'case-newname.test'
  const { handle } = special.oldname
  await world.call(special.oldname, 'com.atproto.identity.updateHandle', { json: { handle } })

  const labelledPost = accounts[7].posts[2]
  await world.label(labelledPost.uri, 'porn', labelledPost.cid)
  await world.label(special.labelled.did, '!warn')
  await world.label(special.labelled.posts[0].uri, '!hide', special.labelled.posts[0].cid)
  await network.settle()
  await network.breakHandle(special.badhandle.did)
  special.badhandle.formerHandle = special.badhandle.handle
  special.badhandle.handle = 'handle.invalid'
  return labelledPost
}

// ---- the truth -----------------------------------------------------------------------------------------

// What the AppView makes of things: counts, and when it first saw them.
async function askShown(world) {
  const shown = new Map()
  const ask = async (nsid, name, keys, key) => {
    for (let i = 0; i < keys.length; i += 25) {
      const query = new URLSearchParams(keys.slice(i, i + 25).map((each) => [name, each]))
      const answer = await (await fetch(`${world.network.appview}/xrpc/${nsid}?${query}`)).json()
      for (const view of answer.posts ?? answer.profiles) {
        const told = Object.entries(view).filter(([field]) => field.endsWith('Count') || field === 'indexedAt')
        shown.set(view[key], Object.fromEntries(told))
      }
    }
  }
  await ask('app.bsky.feed.getPosts', 'uris', world.posts.map(({ uri }) => uri), 'uri')
  await ask('app.bsky.actor.getProfiles', 'actors', world.accounts.map(({ did }) => did), 'did')
  return shown
}

async function tellTruth(world, special, broken) {
  const { accounts, posts, reposts, likes, lists, gone } = world
  const shownAs = await askShown(world)
  const labelsOf = (uri) => world.labels.filter((label) => label.uri === uri).map(({ val, src }) => ({ val, src }))
  const pairs = [[special.blocker, special.blocked], [special['blocks-hub'], accounts[0]]]
  const apart = (a, b) => pairs.some((pair) => pair.includes(a) && pair.includes(b))
  const visible = (post) => !post.by.hidden && !gone.has(post)
  const followers = new Map(accounts.map((account) => [account, []]))
  for (const account of accounts) for (const { to } of account.follows) followers.get(to).push(account)
  const shown = (account, others) =>
    others.filter((other) => !other.hidden && !apart(account, other)).map(({ did }) => did)
  return {
    accounts: accounts.map((account) => ({
      handle: account.handle,
      formerHandle: account.formerHandle,
      did: account.did,
      kind: account.kind,
      optOut: OPT_OUTS[account.kind] ?? null,
      password: account.password,
      profile: account.profile ?? null,
      labels: labelsOf(account.did),
      shown: shownAs.get(account.did),
      visible: !account.hidden,
      follows: shown(account, account.follows.map(({ to }) => to)),
      followers: shown(account, followers.get(account)),
      followRecords: account.follows.length,
      posts: account.posts.filter(visible).length,
      reposts: account.hidden ? 0 : reposts.filter(({ by, post }) => by === account && visible(post)).length,
    })),
    posts: posts.map((post) => ({
      uri: post.uri,
      cid: post.cid,
      by: post.by.did,
      kind: post.kind,
      record: post.record,
      labels: labelsOf(post.uri),
      shown: shownAs.get(post.uri),
      visible: visible(post),
      deleted: (gone.has(post) && post !== broken.takendownPost) || undefined,
      depth: post.depth,
      parent: post.parent?.uri,
      root: post.root?.uri,
      quotes: post.quotes?.uri,
    })),
    reposts: reposts.map(({ by, post, uri, createdAt }) => ({
      by: by.did, subject: post.uri, uri, createdAt, visible: !by.hidden && visible(post),
    })),
    likes: likes.map(({ by, post, uri, createdAt }) => ({ by: by.did, subject: post.uri, uri, createdAt })),
    lists: lists.map(({ by, uri, name, purpose, members }) => ({
      by: by.did, uri, name, purpose, members: members.filter(({ hidden }) => !hidden).map(({ did }) => did),
    })),
  }
}

export async function fill(network, settings, log) {
  const began = performance.now()
  const world = new World(network, new Random(settings.random))
  for (let i = 0; i < settings.accounts; i++) {
    const round = Math.floor(i / FIRST_NAMES.length)
    const name = FIRST_NAMES[i % FIRST_NAMES.length] + (round || '')
    world.addAccount(`${name}.test`, 'author', DISPLAY_NAMES[i] ?? `${name} of round ${round}`)
  }
  const special = Object.fromEntries(
    SPECIAL_KINDS.map((kind) => [kind, world.addAccount(`case-${kind}.test`, kind, `Case: ${kind}`)]),
  )
  for (let i = 0; i < settings.crowd; i++) world.addAccount(`crowd-${i}.test`, 'crowd', `One of many, ${i}`)

  await world.createAccounts()
  log(`${world.accounts.length} accounts`)
  const pictures = await drawPictures()
  await writeProfiles(world, pictures)
  await writeFollows(world)
  log('profiles and follows')
  await writePosts(world, pictures, settings)
  const bigThread = await writeThreads(world, pictures)
  const broken = await writeBrokenThreads(world, special, pictures)
  log(`${world.posts.length} posts`)
  const popularPost = await writeReactions(world, special, broken)
  const { list, gated, pinned } = await writeExtras(world)
  const labelledPost = await loseThings(world, special, broken)

  const { uri } = list
  const named = { ...broken, popularPost, bigThread, labelledPost, pinnedPost: pinned, gatedPost: gated }
  const truth = {
    options: settings,
    seconds: (performance.now() - began) / 1000,
    counts: world.counts,
    labelerDid: network.labeler,
    ...(await tellTruth(world, special, broken)),
    cases: {
      hub: world.accounts[0].did,
      followsEveryone: world.accounts[1].did,
      list: uri,
      ...Object.fromEntries(Object.entries(named).map(([name, post]) => [name, post.uri])),
      ...Object.fromEntries(Object.entries(special).map(([kind, { did }]) => [kind, did])),
    },
  }
  log(`filled: ${JSON.stringify(world.counts)}`)
  return truth
}
