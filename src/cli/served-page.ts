import { randomBytes } from 'node:crypto'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { App } from '../app/app.ts'
import { ownPackage } from '../app/package-info.ts'
import type { Config } from '../config/load-config.ts'
import type { Clock } from '../core/clock.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import { isRecord } from '../core/is-record.ts'
import { replaceFile } from '../core/replace-file.ts'
import type { HttpOptions } from '../server/serve-http.ts'
import { createUi, type Ui } from '../ui/ui-server.ts'

/** How long the link that `serve` prints works. */
const LINK_MS = 10 * 60_000

/** Where a running server is, and the secret that opens its page. */
export interface PageAddress {
  readonly url: string
  readonly key: string
}

/** The page of a server, found by `pegboard ui` through a file that only its user can read. */
export interface ServedPage {
  readonly create: NonNullable<HttpOptions['page']>
  /** Writes the file. */
  announce(url: string): Promise<void>
  /** A link that logs in once; undefined before the server listens. */
  createLink(): string | undefined
  withdraw(): Promise<void>
}

const fileOf = (config: Config): string => join(config.dirs.state, 'page.json')

/** @returns undefined if the page is off */
export async function createServedPage(app: App, config: Config, clock: Clock): Promise<ServedPage | undefined> {
  const host = await app.openUi()
  if (!host) return undefined
  const key = randomBytes(32).toString('base64url')
  let ui: Ui | undefined
  return {
    create(url) {
      ui = createUi({ host, dir: ownPackage().page, key, clock, log: app.log.scoped('page'), url })
      return ui
    },
    async announce(url) {
      try {
        await replaceFile(fileOf(config), `${JSON.stringify({ url, key })}\n`)
      } catch (error) {
        app.log.warn('pegboard ui cannot find this server', { error: messageOf(error) })
      }
    },
    createLink: () => ui?.createLink(LINK_MS),
    async withdraw() {
      // Another server may have started with the same state folder.
      if ((await readPageAddress(config).catch(() => undefined))?.key === key) await rm(fileOf(config), { force: true })
    },
  }
}

/** @throws PegboardError E_NOT_FOUND if no server has announced its page */
export async function readPageAddress(config: Config): Promise<PageAddress> {
  try {
    const content: unknown = JSON.parse(await readFile(fileOf(config), 'utf8'))
    if (isRecord(content) && typeof content['url'] === 'string' && typeof content['key'] === 'string')
      return { url: content['url'], key: content['key'] }
  } catch {
    // The error below says what to do.
  }
  throw createNotRunningError()
}

export const createNotRunningError = (): PegboardError =>
  new PegboardError('E_NOT_FOUND', 'No server with a page is running for this configuration.', {
    hint: 'Start one with pegboard serve --http. It shows clients that connect to it, not those that start Pegboard over stdio. server.http.page must not be false.',
  })
