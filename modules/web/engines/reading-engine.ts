import type { CallContext } from 'pegboard'
import type { Settings } from '../config.ts'
import type { Health } from '../health.ts'
import type { Reader } from '../reader.ts'
import type { WebClients } from '../web-clients.ts'

/** A whole page as text. */
export interface Page {
  /** The final address after redirects. */
  readonly url: string
  readonly text: string
  readonly content_type: string
  readonly title?: string | undefined
  readonly byline?: string | undefined
  readonly published?: string | undefined
  /** For an image: its bytes instead of text. */
  readonly picture?: Uint8Array
}

/** What an engine needs. */
export interface ReadContext {
  readonly settings: Settings
  readonly clients: WebClients
  readonly reader: Reader
  readonly health: Health
  readonly signal: AbortSignal
  /** Who asked. */
  readonly principal: string
  readonly call: CallContext['call']
}

/**
 * An engine that reads pages. The address is checked before, because requests of external engines cannot be guarded.
 */
export interface ReadingEngine {
  /** True if it is configured and healthy. */
  isAvailable(context: ReadContext, raw: boolean): Promise<boolean>
  read(url: string, raw: boolean, context: ReadContext): Promise<Page>
}
