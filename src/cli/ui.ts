import { messageOf } from '../core/errors.ts'
import { createBrowser } from '../upstream/oauth/browser.ts'
import type { Args } from './args.ts'
import { type Io, writeJson } from './io.ts'
import { openConfig } from './open-app.ts'
import { requestLink } from './page-client.ts'
import { readPageAddress } from './served-page.ts'

/** `pegboard ui`: opens the page of the running server in the browser. */
export async function run(args: Args, io: Io): Promise<number> {
  const { config } = await openConfig(args, io)
  const url = await requestLink(await readPageAddress(config))
  if (args.values['json'] === true) writeJson(io, { url })
  else if (args.values['print'] === true) io.stdout(`${url}\n`)
  else {
    try {
      await createBrowser(process.platform, io.env)(url)
      io.stderr('The page opens in your browser. If it does not, run pegboard ui --print and open that address.\n')
    } catch (error) {
      io.stderr(
        `pegboard: warning: no browser could be opened (${messageOf(error)}). Open this address; it works once:\n`,
      )
      io.stdout(`${url}\n`)
    }
  }
  return 0
}
