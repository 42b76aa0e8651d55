//! stage4-scheduler.
