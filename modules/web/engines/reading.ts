import type { CallContext } from 'pegboard'
import type { Way } from '../client.ts'
import type { Settings } from '../config.ts'
import type { Health } from '../health.ts'
import type { Reader } from '../reader.ts'

/** A page as text, whole. */
export interface Page {
  /** Where it was in the end. */
  readonly url: string
  readonly text: string
  readonly content_type: string
  readonly title?: string | undefined
  readonly byline?: string | undefined
  readonly published?: string | undefined
  /** A picture has no text, and is sent as it is. */
  readonly picture?: Uint8Array
}

/** What an engine works with. */
export interface Use {
  readonly settings: Settings
  readonly way: Way
  readonly reader: Reader
  readonly health: Health
  readonly signal: AbortSignal
  readonly call: CallContext['call']
}

/** One way to read a page. The address was looked at before: what asks for it elsewhere cannot be guarded on its way. */
export interface ReadingEngine {
  /** Whether it is configured and well. */
  isThere(use: Use, raw: boolean): Promise<boolean>
  read(url: string, raw: boolean, use: Use): Promise<Page>
}
