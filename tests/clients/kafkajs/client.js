// An application with KafkaJS; the commands it takes are in tests/clients/client.py.
'use strict'

const readline = require('readline')
const { Kafka, logLevel } = require('kafkajs')

const [bootstrap, transactionalId, topic, groupId, timeoutMs] = process.argv.slice(2)
const stderr = () => ({ log }) => console.error(JSON.stringify(log))
const kafka = new Kafka({ clientId: transactionalId, brokers: [bootstrap], logLevel: logLevel.INFO, logCreator: stderr })

let producer
let transaction
let offset = 0

const start = async () => {
  producer = kafka.producer({
    transactionalId,
    idempotent: true,
    maxInFlightRequests: 1,
    transactionTimeout: Number(timeoutMs),
  })
  await producer.connect()
}

const open = async () => {
  transaction = await producer.transaction()
  offset += 1
  const messages = [0, 1].map(partition => ({ value: 'order', partition }))
  await transaction.send({ topic, messages })
  const partitions = [{ partition: 0, offset: String(offset) }]
  await transaction.sendOffsets({ consumerGroupId: groupId, topics: [{ topic, partitions }] })
}

const commands = {
  open,
  commit: async () => {
    await open()
    await transaction.commit()
  },
  abort: async () => {
    await open()
    await transaction.abort()
  },
  // commits what was left open for too long: refused, so the application begins anew
  late: async () => {
    try {
      await transaction.commit()
    } catch (error) {
      console.error(`refused: ${error}`)
      await producer.disconnect()
      return start()
    }
    throw new Error('a commit after the timeout was accepted')
  },
}

const main = async () => {
  await start()
  console.log('ready')
  for await (const line of readline.createInterface({ input: process.stdin })) {
    await commands[line.trim()]()
    console.log('done')
  }
  await producer.disconnect()
}

main().catch(error => {
  console.error(error)
  process.exit(1)
})
