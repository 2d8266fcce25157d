// The atproto network in one process: PLC directory, PDS, bsync and the bsky AppView, all on loopback.
// Fills it, prints one JSON line with the addresses, and serves until its standard input closes.
//   APPVIEW_DATABASE  URL of an empty PostgreSQL database, as its superuser
//   APPVIEW_DATA      an empty folder; everything but the database is kept there
//   SEED_*            see seed.mjs
import fs from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { settingsFrom, fill } from './seed.mjs'

const LOOPBACK = '127.0.0.1'
const database = process.env.APPVIEW_DATABASE
const data = process.env.APPVIEW_DATA
if (!database || !data) throw new Error('APPVIEW_DATABASE and APPVIEW_DATA must be set; run stack.py instead')

// The servers of dev-env listen on every interface. Here each listens on loopback, whatever it asks for.
const listen = net.Server.prototype.listen
net.Server.prototype.listen = function (first, ...rest) {
  const port = Number((typeof first === 'object' ? first?.port : first) || 0)
  return listen.call(this, { port, host: LOOPBACK }, rest.findLast((x) => typeof x === 'function'))
}

process.env.TMPDIR = data // dev-env keeps repositories and blobs in the temporary folder
process.env.LOG_ENABLED ??= 'false'
process.env.NODE_ENV ??= 'production'
const devEnv = await import('@atproto/dev-env')
const { EXAMPLE_LABELER, TestBsky, TestBsync, TestPds, TestPlc, mockNetworkUtilities } = devEnv

// Whoever started this holds the other end: it cannot die and leave the services behind.
let stop = () => process.exit(1)
process.stdin.once('close', () => stop()).resume()

const began = performance.now()
const log = (message) => console.error(`${((performance.now() - began) / 1000).toFixed(1)} s: ${message}`)

const freePort = () =>
  new Promise((resolve, reject) => {
    const probe = net.createServer().once('error', reject)
    probe.listen(0, () => {
      const { port } = probe.address()
      probe.close(() => resolve(port))
    })
  })
const [bskyPort, pdsPort] = [await freePort(), await freePort()]
const address = (port) => `http://${LOOPBACK}:${port}`

const plc = await TestPlc.create({ port: await freePort() })
const bsync = await TestBsync.create({
  port: await freePort(),
  dbUrl: database,
  dbSchema: 'bsync',
  apiKeys: ['bsync'],
})
const bsky = await TestBsky.create({
  port: bskyPort,
  publicUrl: address(bskyPort), // where pictures are served
  plcUrl: plc.url,
  pdsPort,
  repoProvider: `ws://localhost:${pdsPort}`,
  bsyncUrl: bsync.url,
  bsyncApiKey: 'bsync',
  dbPostgresUrl: database,
  dbPostgresSchema: 'bsky',
  redisHost: `${LOOPBACK}:0`, // required, never connected to
  blobCacheLocation: path.join(data, 'pictures'),
})
const pds = await TestPds.create({
  port: pdsPort,
  hostname: 'localhost',
  didPlcUrl: plc.url,
  bskyAppViewUrl: bsky.url,
  bskyAppViewDid: bsky.serverDid,
  enableDidDocWithSession: true,
})
mockNetworkUtilities(pds, bsky)
log('the services are up')

// Returns once the AppView has indexed every event that the PDS has sequenced.
const settle = async () => {
  const deadline = performance.now() + 300_000
  for (;;) {
    await pds.processAll()
    const last = await pds.ctx.sequencer.curr()
    if (!last || (bsky.sub.getCursor() ?? 0) >= last) break
    if (performance.now() > deadline) throw new Error(`the AppView stopped at event ${bsky.sub.getCursor()} of ${last}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  await bsky.sub.processAll()
}

const network = {
  plc: address(plc.port),
  pds: address(pds.port),
  appview: address(bsky.port),
  labeler: EXAMPLE_LABELER,
  adminAuthorization: pds.adminAuth(), // the AppView has the same administrator
  settle,
  // The service that brings labels from labelers to the AppView is not published: write to its table.
  label: (uri, val, cid = '') =>
    bsky.db.db
      .insertInto('label')
      .values({ src: EXAMPLE_LABELER, uri, cid, val, neg: false, cts: new Date().toISOString() })
      .execute(),
  // What the AppView stores once a handle no longer leads back to its account.
  breakHandle: (did) => bsky.db.db.updateTable('actor').set({ handle: null }).where('did', '=', did).execute(),
}
const truth = await fill(network, settingsFrom(process.env), log)
const truthFile = path.join(data, 'truth.json')
fs.writeFileSync(truthFile, JSON.stringify(truth, null, 1))

stop = async () => {
  setTimeout(() => process.exit(1), 15_000).unref()
  for (const service of [bsky, bsync, pds, plc]) await service.close().catch((error) => log(`closing: ${error}`))
  process.exit(0)
}

console.log(
  JSON.stringify({
    appview: network.appview,
    pds: network.pds,
    plc: network.plc,
    truth: truthFile,
    secondsToFill: Math.round(truth.seconds * 10) / 10,
  }),
)
