/**
 * Fills the catalog with owners and keeps them current: drop-in modules, upstream servers or APIs. The owners of a
 * source start independently; one that fails affects no other.
 */
export interface ToolSource<Settings, Status> {
  /** Resolves when everything that is known without a network is in the catalog. Never rejects. */
  start(): Promise<unknown>
  /** Applies changed settings: starts new owners, removes those that are gone, and keeps the others running if possible. */
  configure(settings: Settings): Promise<unknown>
  status(): Status
  /** Never rejects. */
  stop(): Promise<void>
}
