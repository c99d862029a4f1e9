import { type ToolDef, z } from 'pegboard'
import { notFound } from '../_errors.ts'
import { requireKv } from '../_kv.ts'
import { has, type Settings } from './config.ts'
import { STATUSES } from './tasks.ts'

const available = has('tasks')

const Goal = z.object({ goal: z.string().max(2_000).describe('The goal; empty removes it.') })

export const set_goal: ToolDef<Settings, typeof Goal> = {
  title: 'Set the goal',
  description:
    'Set the goal of the user across sessions; recall shows it. Use it when a larger aim is agreed or changes. Not for single steps (task_create).',
  aliases: ['objective', 'aim', 'définir le but', 'fijar objetivo', 'Ziel setzen'],
  tags: ['memory', 'goal'],
  input: Goal,
  effect: 'write',
  idempotent: true,
  sideEffects: ['replaces the goal'],
  examples: [{ input: { goal: 'Ship version 2 before the summer.' } }],
  available,
  async run({ goal }, ctx) {
    const { goalOf, setGoal } = await import('./tasks.ts')
    const kv = requireKv(ctx, 'Goals and tasks')
    const before = await goalOf(kv, ctx.caller.principal)
    await setGoal(kv, ctx.caller.principal, goal.trim())
    return { goal: goal.trim() || null, before }
  },
}

const Create = z.object({
  subject: z.string().trim().min(1).max(200).describe('The task, in a few words.'),
  description: z.string().max(4_000).default('').describe('Details.'),
})

export const task_create: ToolDef<Settings, typeof Create> = {
  title: 'Create a task',
  description:
    'Create a task that is kept across sessions; recall shows open ones. Use it for steps of larger work. Not for reminders at a time, nor for what runs in the background.',
  aliases: ['new task', 'add to my list', 'nouvelle tâche', 'nueva tarea', 'Aufgabe anlegen'],
  tags: ['memory', 'tasks'],
  input: Create,
  effect: 'write',
  sideEffects: ['stores a task'],
  examples: [{ input: { subject: 'Write the changelog', description: 'Since 1.4.' } }],
  available,
  async run({ subject, description }, ctx) {
    const { addTask, toShownTask } = await import('./tasks.ts')
    return toShownTask(
      await addTask(requireKv(ctx, 'Goals and tasks'), ctx.caller.principal, subject, description, Date.now()),
    )
  },
}

const Update = z.object({
  task_id: z.string().min(1).max(100).describe('From task_create or recall.'),
  status: z.enum(STATUSES).optional().describe('New status; without it the task is only shown.'),
  description: z.string().max(4_000).optional().describe('New description.'),
})

export const task_update: ToolDef<Settings, typeof Update> = {
  title: 'Update a task',
  description:
    'Update the status or description of a task, or show it. Use it when work on it begins, ends or is given up. Not for tasks that run in the background (background_status).',
  aliases: ['finish task', 'mark done', 'terminer la tâche', 'completar tarea', 'Aufgabe erledigen'],
  tags: ['memory', 'tasks'],
  input: Update,
  effect: 'write',
  idempotent: true,
  sideEffects: ['changes a task'],
  examples: [{ input: { task_id: '5c1e77aa', status: 'done' } }],
  available,
  async run({ task_id, status, description }, ctx) {
    const { toShownTask, updateTask } = await import('./tasks.ts')
    const task = await updateTask(requireKv(ctx, 'Goals and tasks'), ctx.caller.principal, task_id, {
      status,
      description,
    })
    if (task) return toShownTask(task)
    throw notFound(`Unknown task: "${task_id}".`, 'recall lists open tasks.')
  },
}
