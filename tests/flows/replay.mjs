// Does recordings as @puppeteer/replay does them: one a line of stdin, one after the other, each in a context of its own.
// Of each it prints a line of JSON.
import { createInterface } from 'node:readline'
import { createRunner, parse, PuppeteerRunnerExtension } from '@puppeteer/replay'
import puppeteer from 'puppeteer-core'

const [executablePath] = process.argv.slice(2)
const args = ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu']
const browser = await puppeteer.launch({ executablePath, args, headless: 'shell' })
for await (const line of createInterface({ input: process.stdin })) {
  const context = await browser.createBrowserContext()
  const page = await context.newPage()
  const done = []
  class Told extends PuppeteerRunnerExtension {
    async afterEachStep(step) { done.push(step.type) }
  }
  let failed = ''
  try {
    await (await createRunner(parse(JSON.parse(line)), new Told(browser, page))).run()
  } catch (error) {
    failed = String(error)
  }
  await context.close()
  console.log(JSON.stringify({ done, failed }))
}
await browser.close()
