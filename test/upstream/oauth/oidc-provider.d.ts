/** What the tests use of it; the package brings no types of its own. */
declare module 'oidc-provider' {
  import type { RequestListener } from 'node:http'

  interface Found {
    readonly accountId?: string
    readonly clientId: string
    readonly scope?: string
    readonly aud?: string | string[]
    readonly exp: number
    destroy(): Promise<void>
  }
  export default class Provider {
    constructor(issuer: string, configuration: object)
    callback(): RequestListener
    on(event: string, listener: (...args: unknown[]) => void): void
    readonly AccessToken: { find(token: string): Promise<Found | undefined> }
    readonly RefreshToken: { find(token: string): Promise<Found | undefined> }
  }
}
