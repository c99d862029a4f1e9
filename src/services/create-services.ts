import { originOf, type Services, type ServicesFor, type ServiceUser } from '../core/caller.ts'
import { PegboardError } from '../core/errors.ts'
import type {
  Adapters,
  Conversations,
  Incoming,
  Kv,
  Llm,
  Memory,
  Messages,
  Processes,
  Registry,
  Servers,
  Tasks,
} from '../core/service-types.ts'
import type { AdapterRegistry } from './adapters.ts'
import type { createConversations } from './conversations.ts'
import type { createIncoming } from './incoming-messages.ts'
import type { createKv } from './kv.ts'
import type { Endpoint } from './llm-endpoint.ts'
import type { createMessages } from './message-store.ts'
import { samplingLlm } from './sampling-llm.ts'

/** The parts of the services; `null` for a disabled one. */
export interface ServiceParts {
  servers(user: ServiceUser): Servers
  readonly kv: ReturnType<typeof createKv> | null
  readonly messages: ReturnType<typeof createMessages> | null
  readonly conversations: ReturnType<typeof createConversations> | null
  readonly memory: ((user: ServiceUser) => Memory) | null
  readonly adapters: AdapterRegistry
  readonly incoming: ReturnType<typeof createIncoming>
  readonly endpoint: Endpoint | null
  processes(): Processes | null
  registry(user: ServiceUser): Registry
  tasks(user: ServiceUser): Tasks | null
  config(): Readonly<Record<string, unknown>>
}

const USER = Symbol('user')

const notNow = (): Promise<never> =>
  Promise.reject(new PegboardError('E_CANNOT_ASK', 'The model of a client is available only during a call.'))

interface ServicesOfUser extends Services {
  [USER]: ServiceUser
}

/** Creates the services of a call. Getters on a prototype create each on first use, so a call costs one object. */
export function createServices(parts: ServiceParts): ServicesFor {
  const origin = ({ caller, profile }: ServiceUser) => originOf(caller, profile)
  const shared: Services & ThisType<ServicesOfUser> = {
    get servers(): Servers {
      return parts.servers(this[USER])
    },
    get kv(): Kv | null {
      return parts.kv?.(this[USER].caller.profile, this[USER].module) ?? null
    },
    get messages(): Messages | null {
      return parts.messages?.(this[USER].caller, origin(this[USER])) ?? null
    },
    get conversations(): Conversations | null {
      return parts.conversations?.(this[USER].caller, origin(this[USER])) ?? null
    },
    get memory(): Memory | null {
      return parts.memory?.(this[USER]) ?? null
    },
    get tasks(): Tasks | null {
      return parts.tasks(this[USER])
    },
    get registry(): Registry {
      return parts.registry(this[USER])
    },
    get adapters(): Adapters {
      const { caller, module, until } = this[USER]
      return parts.adapters.for(caller, origin(this[USER]).platform, { module, ...(until && { until }) })
    },
    get incoming(): Incoming {
      const user = this[USER]
      return parts.incoming((platform) => {
        const at = { ...origin(user), platform }
        return {
          messages: parts.messages?.(user.caller, at) ?? null,
          conversations: parts.conversations?.(user.caller, at) ?? null,
        }
      }, user.until)
    },
    get llm(): Llm | null {
      const { caller, relay, signal } = this[USER]
      // Callers that only check whether a service exists have no connection to the client.
      const send = relay === undefined ? notNow : relay.request
      if (caller.supports.sampling && send) return samplingLlm(send, signal)
      return parts.endpoint?.for(signal) ?? null
    },
    get processes(): Processes | null {
      return parts.processes()
    },
    get loop() {
      return this[USER].loop ?? null
    },
    get config() {
      return parts.config()
    },
  }
  return (user) => {
    const services = Object.create(shared) as ServicesOfUser
    services[USER] = user
    return services
  }
}
