//! A shard's tasks, and which of them are to be polled.

use super::{frame::Boxed, waker::TaskId};
use slab::Slab;
use std::{collections::VecDeque, panic::Location};

/// The tasks of one shard.
#[derive(Default)]
pub(crate) struct Table {
    tasks: Slab<Entry>,
    /// Tasks to be polled, by place and generation, in order. Each stands in here once, however often it is woken. One that has ended
    /// since is passed over: its place may have a new tenant, who has a turn of its own.
    ready: VecDeque<(usize, usize)>,
    spawned: u64,
}

struct Entry {
    generation: usize,
    is_ready: bool,
    /// None while it is being polled.
    frame: Option<Boxed>,
    /// Where it was started.
    from: &'static Location<'static>,
}

impl Table {
    /// Takes a new task, to be polled.
    ///
    /// # Panics
    /// With more than 2^26 tasks.
    pub(crate) fn insert(
        &mut self,
        shard: usize,
        frame: Boxed,
        from: &'static Location<'static>,
    ) -> TaskId {
        let generation = TaskId::generation(self.spawned);
        self.spawned += 1;
        let place = self.tasks.vacant_key();
        assert!(
            place < TaskId::PLACES,
            "a shard runs at most {} tasks at once",
            TaskId::PLACES
        );
        self.tasks.insert(Entry {
            generation,
            is_ready: false,
            frame: Some(frame),
            from,
        });
        self.wake_place(place);
        TaskId {
            shard,
            place,
            generation,
        }
    }

    /// Has a task polled, if it is still there. False if it is not, or was to be polled anyway.
    pub(crate) fn wake(&mut self, id: TaskId) -> bool {
        match self.tasks.get_mut(id.place) {
            Some(entry) if entry.generation == id.generation && !entry.is_ready => {
                entry.is_ready = true;
                self.ready.push_back((id.place, id.generation));
                true
            }
            _ => false,
        }
    }

    /// Has whatever task stands at `place` polled.
    pub(crate) fn wake_place(&mut self, place: usize) {
        if let Some(entry) = self.tasks.get_mut(place)
            && !entry.is_ready
        {
            entry.is_ready = true;
            self.ready.push_back((place, entry.generation));
        }
    }

    /// Takes out the next task to be polled; [`put_back`](Self::put_back) or [`remove`](Self::remove) is to follow.
    pub(crate) fn next(&mut self, shard: usize) -> Option<(TaskId, Boxed)> {
        loop {
            let (place, generation) = self.ready.pop_front()?;
            // The frame is taken last: a tenant that is not to be polled keeps its own.
            if let Some(entry) = self.tasks.get_mut(place)
                && entry.generation == generation
                && entry.is_ready
                && let Some(frame) = entry.frame.take()
            {
                entry.is_ready = false;
                let id = TaskId {
                    shard,
                    place,
                    generation,
                };
                return Some((id, frame));
            }
        }
    }

    /// The task was polled and has not ended.
    pub(crate) fn put_back(&mut self, id: TaskId, frame: Boxed) {
        if let Some(entry) = self.tasks.get_mut(id.place) {
            entry.frame = Some(frame);
        }
    }

    /// The task has ended.
    pub(crate) fn remove(&mut self, id: TaskId) {
        self.tasks.try_remove(id.place);
    }

    /// Where a task was started.
    pub(crate) fn from(&self, id: TaskId) -> Option<&'static Location<'static>> {
        self.tasks.get(id.place).map(|entry| entry.from)
    }

    /// Takes out all tasks, to be dropped where no part of this table is borrowed.
    #[must_use]
    pub(crate) fn drain(&mut self) -> Vec<Boxed> {
        self.ready.clear();
        self.tasks.drain().filter_map(|entry| entry.frame).collect()
    }

    /// Tasks that have not ended.
    pub(crate) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether any task is to be polled.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::{Table, TaskId};
    use crate::task::frame::Frame;
    use std::{
        pin::Pin,
        task::{Context, Poll},
    };

    struct Nothing;

    impl Frame for Nothing {
        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            Poll::Ready(())
        }
    }

    fn insert(table: &mut Table) -> TaskId {
        table.insert(1, Box::pin(Nothing), std::panic::Location::caller())
    }

    #[test]
    fn a_task_is_polled_once_however_often_it_is_woken() {
        let mut table = Table::default();
        let id = insert(&mut table);
        assert!(!table.wake(id), "a new task is to be polled anyway");
        let (next, frame) = table.next(1).unwrap();
        assert_eq!(next, id);
        assert!(table.next(1).is_none());
        // Woken while it is polled: once more.
        assert!(table.wake(id));
        assert!(!table.wake(id));
        table.put_back(id, frame);
        assert_eq!(table.next(1).unwrap().0, id);
        assert!(table.next(1).is_none());
    }

    #[test]
    fn a_wake_for_one_that_has_ended_reaches_no_other() {
        let mut table = Table::default();
        let ended = insert(&mut table);
        let frame = table.next(1).unwrap().1;
        assert!(table.wake(ended));
        table.remove(ended);
        drop(frame);
        let tenant = insert(&mut table);
        assert_eq!(
            (tenant.place, tenant.generation),
            (ended.place, ended.generation + 1)
        );
        assert!(!table.wake(ended));
        assert_eq!(table.next(1).unwrap().0, tenant);
        assert!(
            table.next(1).is_none(),
            "its place stood in the queue twice"
        );
    }

    #[test]
    fn a_place_left_in_the_queue_by_one_that_has_ended_costs_its_tenant_nothing() {
        let mut table = Table::default();
        let ended = insert(&mut table);
        drop(table.next(1));
        assert!(table.wake(ended));
        table.remove(ended);
        let tenant = insert(&mut table);
        let (next, frame) = table.next(1).unwrap();
        assert_eq!(next, tenant);
        table.put_back(tenant, frame);
        assert!(
            table.next(1).is_none(),
            "its place stood in the queue twice"
        );
        assert!(table.wake(tenant));
        let (next, _frame) = table.next(1).expect("it was not dropped meanwhile");
        assert_eq!(next, tenant);
    }

    #[test]
    fn the_queue_is_as_long_as_there_are_tasks_though_they_end_while_woken() {
        let mut table = Table::default();
        for _ in 0..8 {
            insert(&mut table);
        }
        for _ in 0..1_000 {
            let (id, _frame) = table.next(1).unwrap();
            assert!(table.wake(id));
            table.remove(id);
            insert(&mut table);
            assert!(table.ready.len() <= 16, "{} stand in it", table.ready.len());
        }
    }

    #[test]
    fn the_order_is_that_of_the_wakes() {
        let mut table = Table::default();
        let ids = [(); 4].map(|()| insert(&mut table));
        let mut frames = Vec::new();
        while let Some(task) = table.next(1) {
            frames.push(task);
        }
        assert_eq!(frames.iter().map(|(id, _)| *id).collect::<Vec<_>>(), ids);
        for (id, frame) in frames {
            table.put_back(id, frame);
        }
        for at in [2, 0, 3] {
            assert!(table.wake(ids[at]));
        }
        table.wake_place(ids[1].place);
        let woken: Vec<_> = std::iter::from_fn(|| table.next(1)).collect();
        let order: Vec<_> = woken.iter().map(|(id, _)| id.place).collect();
        assert_eq!(order, [2, 0, 3, 1]);
    }

    #[test]
    fn drained_tasks_are_gone_at_once() {
        let mut table = Table::default();
        let id = insert(&mut table);
        insert(&mut table);
        assert_eq!(table.drain().len(), 2);
        assert_eq!(table.len(), 0);
        assert!(!table.has_ready() && !table.wake(id));
    }
}
