import { computed, effect, signal } from '@preact/signals'
import type { CallRow, ClientRow, LiveEvent, Overview, OwnerRow } from '../../src/ui/api-types.ts'
import { ApiError, get, post } from './api.ts'

export type Access = 'checking' | 'signed-out' | 'signed-in'
export type StreamState = 'connecting' | 'live' | 'lost'

export const access = signal<Access>('checking')
export const accessProblem = signal<string | undefined>(undefined)
export const streamState = signal<StreamState>('connecting')
export const overview = signal<Overview | undefined>(undefined)
export const owners = signal<readonly OwnerRow[] | undefined>(undefined)
export const clients = signal<readonly ClientRow[] | undefined>(undefined)
export const calls = signal<readonly CallRow[]>([])
/** Version of the list of tools. */
export const version = signal(0)
export const profile = signal('default')

const MAX_CALLS = 2_000

// --- where the person is: #/tools?q=text

export const route = signal(location.hash)
export const panel = computed(() => /^#\/([a-z]+)/.exec(route.value)?.[1] ?? 'servers')
export const routeQuery = computed(() => new URLSearchParams(route.value.split('?')[1] ?? ''))
window.addEventListener('hashchange', () => {
  route.value = location.hash
})

// --- messages

export interface Notice {
  readonly id: number
  readonly kind: 'done' | 'problem'
  readonly text: string
  readonly hint?: string | undefined
}
export const notices = signal<readonly Notice[]>([])
let lastNotice = 0
const NOTICE_MS = 8_000

export function tell(kind: Notice['kind'], text: string, hint?: string): void {
  const id = ++lastNotice
  notices.value = [...notices.value, { id, kind, text, hint }].slice(-4)
  if (kind === 'done') setTimeout(() => dismiss(id), NOTICE_MS)
}
export const dismiss = (id: number): void => {
  notices.value = notices.value.filter((one) => one.id !== id)
}

/** Runs an action. Its failure is shown; a session that is over leads to the login. @returns undefined on failure */
export async function attempt<T>(work: () => Promise<T>, done?: string): Promise<T | undefined> {
  try {
    const value = await work()
    if (done !== undefined) tell('done', done)
    return value
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) endSession(error.message)
    else if (error instanceof ApiError) tell('problem', error.message, error.hint)
    else tell('problem', 'The page has a bug. Reload it.')
    return undefined
  }
}

// --- session and stream

let stream: EventSource | undefined

function endSession(why?: string): void {
  stream?.close()
  stream = undefined
  accessProblem.value = why
  access.value = 'signed-out'
}

const RETRY_MS = 2_000

function openStream(): void {
  stream?.close()
  const source = new EventSource('/ui/api/events')
  stream = source
  streamState.value = 'connecting'
  let first = true
  const on = <K extends LiveEvent['kind']>(kind: K, take: (event: Extract<LiveEvent, { kind: K }>) => void): void =>
    source.addEventListener(kind, (message) => {
      streamState.value = 'live'
      take(JSON.parse((message as MessageEvent<string>).data) as Extract<LiveEvent, { kind: K }>)
    })
  on('overview', (event) => {
    overview.value = event.overview
  })
  on('owners', (event) => {
    owners.value = event.owners
  })
  on('clients', (event) => {
    clients.value = event.clients
  })
  on('tools', (event) => {
    version.value = event.version
  })
  on('calls', (event) => {
    // The first message holds all calls that the server remembers.
    calls.value = (first ? event.calls : [...calls.value, ...event.calls]).slice(-MAX_CALLS)
    first = false
  })
  source.onerror = () => {
    source.close()
    if (stream !== source) return
    streamState.value = 'lost'
    setTimeout(() => stream === source && void reconnect(), RETRY_MS)
  }
}

async function reconnect(): Promise<void> {
  try {
    await get('overview')
    openStream()
  } catch (error) {
    if (error instanceof ApiError && error.status === 401)
      endSession('Your session has ended, because Pegboard was restarted or it is too old.')
    else if (stream) setTimeout(() => void reconnect(), RETRY_MS)
  }
}

async function beginSession(): Promise<void> {
  access.value = 'signed-in'
  accessProblem.value = undefined
  openStream()
}

/** Uses the code in the address, or the session of an earlier visit. */
export async function start(): Promise<void> {
  const code = /^#([\w-]{20,})$/.exec(location.hash)?.[1]
  if (code !== undefined) {
    // The code works once; it must not stay in the history.
    history.replaceState(null, '', `${location.pathname}#/servers`)
    route.value = location.hash
  }
  try {
    if (code !== undefined) await post('login', { code })
    else await get('overview')
    await beginSession()
  } catch (error) {
    // A reloaded link was used already, but its session may last.
    if (
      code !== undefined &&
      (await get('overview').then(
        () => true,
        () => false,
      ))
    )
      return beginSession()
    endSession(code !== undefined && error instanceof ApiError ? error.message : undefined)
  }
}

export async function signInWith(token: string): Promise<void> {
  try {
    await post('login', {}, {}, { authorization: `Bearer ${token}` })
    await beginSession()
  } catch (error) {
    accessProblem.value =
      error instanceof ApiError && error.status === 401
        ? 'This token does not open the page. Only the token of the operator does.'
        : (error as Error).message
  }
}

export async function signOut(): Promise<void> {
  await attempt(() => post('logout', {}))
  endSession()
}

// --- theme

export type Theme = 'system' | 'light' | 'dark'
const THEME = 'pegboard-theme'
const stored = localStorage.getItem(THEME)
export const theme = signal<Theme>(stored === 'light' || stored === 'dark' ? stored : 'system')
effect(() => {
  document.documentElement.dataset['theme'] = theme.value
  localStorage.setItem(THEME, theme.value)
})
