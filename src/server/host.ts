import type { Catalog } from '../catalog/catalog.ts'
import type { Caller } from '../core/context.ts'
import type { Log } from '../core/log.ts'
import type { SearchStatus } from '../meta/host.ts'
import type { Surface } from '../meta/surface.ts'
import type { Exposure } from '../view/exposure.ts'
import type { View } from '../view/view.ts'
import type { Resumes } from './resume.ts'
import type { TaskBook } from './task-book.ts'

/** What the wire needs of the rest. */
export interface ServerHost {
  readonly name: string
  readonly version: string
  readonly instructions: string | undefined
  readonly catalog: Catalog
  readonly surface: Surface
  readonly log: Log
  view(caller: Caller): View
  exposure(caller: Caller): Exposure
  readonly resumes: Resumes
  readonly tasks: TaskBook
  /** Module files that could not be loaded. */
  failed(): readonly { readonly file: string; readonly error: string; readonly code: string }[]
  /** What search can do now. */
  searchStatus(): SearchStatus
  /** Log messages and resource updates that upstreams send on their own. Returns how to stop listening. */
  onUpstream(listener: UpstreamListener): () => void
}

export interface UpstreamListener {
  log?(message: Readonly<Record<string, unknown>>): void
  resourceUpdated?(uri: string): void
  /** A task of this owner changed; told as the extension tells it. */
  task?(owner: string, task: Readonly<Record<string, unknown>>): void
}
