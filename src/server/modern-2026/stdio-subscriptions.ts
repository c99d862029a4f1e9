import type { Caller } from '../../core/caller.ts'
import type { Clock } from '../../core/clock.ts'
import type { Message } from '../../core/jsonrpc.ts'
import { callerOf, type Identity } from '../identity.ts'
import type { RequestClaims } from '../request-claims.ts'
import type { ServerHost } from '../server-host.ts'
import { subscribedUris, subscribeToResources, withSubscribedUris } from './resource-subscriptions.ts'
import {
  addPlaceholderResource,
  addTasksToAck,
  sendTaskChanges,
  type WantedTasks,
  wantedTasks,
} from './task-subscriptions.ts'

export interface StdioSubscriptionsOptions {
  readonly host: ServerHost
  readonly clock: Clock
  readonly identity: Identity
  readonly claims: RequestClaims
  readonly send: (message: object) => void
  readonly toSdk: (message: Message) => void
}

/**
 * The `subscriptions/listen` requests of a client on stdio. The SDK answers them and sends changed lists; subscriptions
 * to resources and tasks are kept here.
 */
export function createStdioSubscriptions(options: StdioSubscriptionsOptions) {
  const { host, clock, claims, send, toSdk } = options
  const base = callerOf({ era: 'modern', identity: options.identity }, undefined, undefined)
  // By the id of the request.
  const stops = new Map<unknown, () => void>()
  const unacknowledged = new Map<unknown, { readonly tasks: WantedTasks; readonly caller: Caller }>()

  function cancel(id: unknown): void {
    stops.get(id)?.()
    stops.delete(id)
    unacknowledged.delete(id)
  }

  return {
    /** Subscribes, and gives the message to the SDK. */
    listen(message: Message): void {
      const { id } = message
      const caller = claims.of(base, message.params?.['_meta'])
      const tasks = wantedTasks(message)
      cancel(id)
      if (tasks) unacknowledged.set(id, { tasks, caller })
      const { acceptedUris, stop } = subscribeToResources(host, clock, caller, subscribedUris(message))
      stops.set(id, stop)
      // The SDK acknowledges at once what the message names, so it names what servers accepted.
      void acceptedUris.then((uris) => {
        if (stops.get(id) !== stop) return
        const accepted = withSubscribedUris(message, uris)
        toSdk(tasks ? addPlaceholderResource(accepted) : accepted)
      })
    },
    cancel,
    /** Sends a message of the SDK. Its acknowledgement gets the tasks, and they are followed from then on. */
    send(message: object): void {
      for (const [id, { tasks, caller }] of unacknowledged) {
        const acknowledgement = addTasksToAck(message, tasks)
        if (!acknowledgement) continue
        unacknowledged.delete(id)
        send(acknowledgement)
        const stop = stops.get(id)
        const stopTasks = sendTaskChanges(host, clock, caller, tasks, send)
        stops.set(id, () => {
          stop?.()
          stopTasks()
        })
        return
      }
      send(message)
    },
    close(): void {
      for (const stop of stops.values()) stop()
      stops.clear()
    },
  }
}
